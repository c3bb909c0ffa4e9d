#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace quarry {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) {
    return Error(Code::kInvalidArgument, "odd");
  }
  return n / 2;
}

Result<int> Quarter(int n) {
  QUARRY_ASSIGN(const int half, Half(n));
  return Half(half);
}

Status Check(int n) {
  QUARRY_TRY(Half(n));
  return Ok();
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Check(2).has_value());
  EXPECT_EQ(Check(3).error().message(), "odd");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto pass = [&]() -> Result<std::unique_ptr<int>> {
    QUARRY_ASSIGN(auto value, make());
    return value;
  };
  EXPECT_EQ(**pass(), 7);
}

TEST(Result, ContextIsPutInFrontOutermostFirst) {
  auto result = Half(1).Context("inner").Context("outer");
  EXPECT_EQ(result.error().message(), "outer: inner: odd");
  EXPECT_EQ(*Half(2).Context("unused"), 1);
}

TEST(Error, ErrnoKeepsItsNumberAndSaysItsWords) {
  const Error error = ErrnoError("opening /x", ENOENT);
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_EQ(error.sys_errno(), ENOENT);
  EXPECT_EQ(error.message(), "opening /x: No such file or directory");
  EXPECT_EQ(ErrnoError("x", EBUSY).code(), Code::kPrecondition);
  EXPECT_EQ(ErrnoError("x", EIO).code(), Code::kIo);
  EXPECT_EQ(ErrnoError("x", ENOSPC).code(), Code::kNoSpace);
}

}  // namespace
}  // namespace quarry
