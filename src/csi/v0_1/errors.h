// How CSI v0.1 spells our error codes (csi-spec section 10). The only place that knows.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "base/error.h"

namespace quarry::csi::v0_1 {

grpc::StatusCode ToGrpcCode(Code code);

}  // namespace quarry::csi::v0_1
