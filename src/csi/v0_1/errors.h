// Maps Quarry's error codes to those of CSI v0.1 (csi-spec section 10). No other file does.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "base/error.h"

namespace quarry::csi::v0_1 {

grpc::StatusCode ToGrpcCode(Code code);

}  // namespace quarry::csi::v0_1
