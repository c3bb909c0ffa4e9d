// Maps Quarry's error codes to those of CSI v0 (0.2 and 0.3; csi-spec section 10). No other file does.
#pragma once

#include "csi/v1/errors.h"

namespace quarry::csi::v0 {

// As in v1, but kBusy becomes UNAVAILABLE, which Mesos retries. ABORTED would end its operation for good.
inline grpc::StatusCode ToGrpcCode(Code code) {
  return code == Code::kBusy ? grpc::StatusCode::UNAVAILABLE : v1::ToGrpcCode(code);
}

}  // namespace quarry::csi::v0
