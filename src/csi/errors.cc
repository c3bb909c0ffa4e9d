#include "csi/errors.h"

namespace quarry::csi::v1 {

// No default: a new error code does not compile until it is mapped here.
grpc::StatusCode ToGrpcCode(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::kBusy:
      return grpc::StatusCode::ABORTED;
    case Code::kPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kNoSpace:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kOutOfRange:
      return grpc::StatusCode::OUT_OF_RANGE;
    case Code::kUnsupported:
      // "field invalid or unsupported". UNIMPLEMENTED is for whole RPCs: callers would stop using the RPC for
      // good.
      return grpc::StatusCode::INVALID_ARGUMENT;
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

}  // namespace quarry::csi::v1
