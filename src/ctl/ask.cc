#include "ctl/ask.h"

namespace quarry::ctl {

Error ErrorOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {Code::kInvalidArgument, status.error_message()};
    case grpc::StatusCode::NOT_FOUND:
      return {Code::kNotFound, status.error_message()};
    case grpc::StatusCode::ABORTED:
      return {Code::kBusy, status.error_message()};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error(Code::kTimeout, status.error_message()).Context("quarryd");
    case grpc::StatusCode::UNAVAILABLE:
      return Error(Code::kUnavailable, status.error_message()).Context("quarryd");
    case grpc::StatusCode::UNIMPLEMENTED:
      return {Code::kPrecondition,
              "this quarryd does not support the command: either the socket is not its admin socket (set "
              "--endpoint to its --admin-endpoint), or quarryd is older than quarryctl"};
    default:
      return {Code::kPrecondition, status.error_message()};
  }
}

}  // namespace quarry::ctl
