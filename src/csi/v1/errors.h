// How CSI v1 spells our error codes (csi-spec sections 5 and 6). The only place that knows.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "base/error.h"

namespace quarry::csi::v1 {

grpc::StatusCode ToGrpcCode(Code code);

}  // namespace quarry::csi::v1
