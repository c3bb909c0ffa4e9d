#include "csi/v0_1/errors.h"

namespace quarry::csi::v0_1 {

// No default: a new error code does not compile until it is mapped here.
grpc::StatusCode ToGrpcCode(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::kPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kNoSpace:
      // 0.1 has a single code for a size that is not available, now or ever.
    case Code::kOutOfRange:
      return grpc::StatusCode::OUT_OF_RANGE;
    case Code::kBusy:
      // Not ABORTED: that ends an operation of Mesos for good, while UNAVAILABLE is retried.
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case Code::kTimeout:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case Code::kStaleToken:
      return grpc::StatusCode::ABORTED;
    case Code::kCorrupt:
    case Code::kIo:
    case Code::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;  // not a value of the enumeration
}

}  // namespace quarry::csi::v0_1
