// Maps Quarry's error codes to those of each CSI version. No other file does.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "base/error.h"

namespace quarry::csi {

// csi-spec sections 5 and 6.
namespace v1 {
grpc::StatusCode ToGrpcCode(Code code);
}  // namespace v1

// 0.2 and 0.3 (csi-spec section 10). As in v1, but kBusy becomes UNAVAILABLE, which Mesos retries. ABORTED
// would end its operation for good.
namespace v0 {
inline grpc::StatusCode ToGrpcCode(Code code) {
  return code == Code::kBusy ? grpc::StatusCode::UNAVAILABLE : v1::ToGrpcCode(code);
}
}  // namespace v0

// As in v0, but 0.1 has a single code for a size that is not available, now or ever.
namespace v0_1 {
inline grpc::StatusCode ToGrpcCode(Code code) {
  return code == Code::kNoSpace ? grpc::StatusCode::OUT_OF_RANGE : v0::ToGrpcCode(code);
}
}  // namespace v0_1

}  // namespace quarry::csi
