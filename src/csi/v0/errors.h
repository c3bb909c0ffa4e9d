// How CSI v0 (0.2 and 0.3) spells our error codes (csi-spec section 10). The only place that knows.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "base/error.h"

namespace quarry::csi::v0 {

grpc::StatusCode ToGrpcCode(Code code);

}  // namespace quarry::csi::v0
