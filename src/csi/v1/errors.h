// Maps Quarry's error codes to those of CSI v1 (csi-spec sections 5 and 6). No other file does.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "base/error.h"

namespace quarry::csi::v1 {

grpc::StatusCode ToGrpcCode(Code code);

}  // namespace quarry::csi::v1
