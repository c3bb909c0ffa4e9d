// Maps Quarry's error codes to those of CSI v0.1 (csi-spec section 10). No other file does.
#pragma once

#include "csi/v0/errors.h"

namespace quarry::csi::v0_1 {

// As in v0, but 0.1 has a single code for a size that is not available, now or ever.
inline grpc::StatusCode ToGrpcCode(Code code) {
  return code == Code::kNoSpace ? grpc::StatusCode::OUT_OF_RANGE : v0::ToGrpcCode(code);
}

}  // namespace quarry::csi::v0_1
