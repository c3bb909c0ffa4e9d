// Maps Quarry's error codes to the gRPC codes of COSI. They are those of CSI (csi/errors.h); each version
// states its differences here.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include "csi/errors.h"

namespace quarry::cosi {

namespace v1alpha1 {
inline grpc::StatusCode ToGrpcCode(Code code) {
  return csi::v1::ToGrpcCode(code);
}
}  // namespace v1alpha1

// OUT_OF_RANGE has one meaning only: a driver that grants no access to several buckets. A size that no state
// of the pool could serve is a parameter that the class has to change.
namespace v1alpha2 {
inline grpc::StatusCode ToGrpcCode(Code code) {
  return code == Code::kOutOfRange ? grpc::StatusCode::INVALID_ARGUMENT : csi::v1::ToGrpcCode(code);
}
}  // namespace v1alpha2

}  // namespace quarry::cosi
