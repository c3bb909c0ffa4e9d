#include <set>

#include <gtest/gtest.h>

#include "csi/errors.h"

namespace quarry::csi::v1 {
namespace {

TEST(ToGrpcCode, MapsEveryErrorToTheCodeThatCsiHasForIt) {
  const std::pair<Code, grpc::StatusCode> table[] = {
      {Code::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
      {Code::kNotFound, grpc::StatusCode::NOT_FOUND},
      {Code::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
      {Code::kBusy, grpc::StatusCode::ABORTED},
      {Code::kPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
      {Code::kNoSpace, grpc::StatusCode::RESOURCE_EXHAUSTED},
      {Code::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
      {Code::kUnsupported, grpc::StatusCode::INVALID_ARGUMENT},
      {Code::kUnavailable, grpc::StatusCode::UNAVAILABLE},
      {Code::kTimeout, grpc::StatusCode::DEADLINE_EXCEEDED},
      {Code::kCancelled, grpc::StatusCode::CANCELLED},
      {Code::kCorrupt, grpc::StatusCode::INTERNAL},
      {Code::kIo, grpc::StatusCode::INTERNAL},
      {Code::kStaleToken, grpc::StatusCode::ABORTED},
      {Code::kInternal, grpc::StatusCode::INTERNAL},
  };
  for (const auto& [ours, theirs] : table) {
    EXPECT_EQ(ToGrpcCode(ours), theirs) << CodeName(ours);
  }
}

TEST(ToGrpcCode, CouldNotLookHasACodeOfItsOwn) {
  for (const Code code : {Code::kUnavailable, Code::kIo, Code::kTimeout, Code::kInternal, Code::kCorrupt}) {
    EXPECT_NE(ToGrpcCode(code), grpc::StatusCode::NOT_FOUND) << CodeName(code);
    EXPECT_NE(ToGrpcCode(code), grpc::StatusCode::OK) << CodeName(code);
  }
}

}  // namespace
}  // namespace quarry::csi::v1
