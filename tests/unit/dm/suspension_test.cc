#include "dm/suspension.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/fakes/fake_dm.h"

namespace quarry::dm {
namespace {

constexpr const char* kUuid = "LVM-one";
constexpr const char* kOther = "LVM-two";

class SuspensionTest : public ::testing::Test {
 protected:
  SuspensionTest() {
    dm_.AddDevice(kUuid, "vg-one", kMiB);
    dm_.AddDevice(kOther, "vg-two", kMiB);
  }
  Result<Suspension> Begin(const char* uuid = kUuid) {
    return Suspension::Begin(dm_, uuid, FileSystemLock::kTake, CallWithin(std::chrono::seconds(30)));
  }
  bool IsSuspended(const char* uuid = kUuid) { return dm_.Find(uuid).value()->suspended; }

  fakes::FakeDm dm_;
};

TEST_F(SuspensionTest, AFailedResumeIsReportedAndTriedAgain) {
  {
    auto suspension = Begin();
    ASSERT_TRUE(suspension.has_value());
    dm_.faults.FailNth("Resume", 1, Error(Code::kUnavailable, "no memory"));
    EXPECT_EQ(suspension->End().error().code(), Code::kUnavailable);
    EXPECT_TRUE(IsSuspended());
    dm_.faults.FailNth("Resume", 1, Error(Code::kUnavailable, "no memory"));
  }
  EXPECT_FALSE(IsSuspended());
}

TEST_F(SuspensionTest, AssigningResumesTheFormerDevice) {
  auto one = Begin();
  auto two = Begin(kOther);
  ASSERT_TRUE(one.has_value() && two.has_value());
  *one = std::move(*two);
  EXPECT_FALSE(IsSuspended());
  EXPECT_TRUE(IsSuspended(kOther));
}

TEST_F(SuspensionTest, AFailedSuspendIsNotResumed) {
  dm_.faults.FailNth("Suspend", 1, Error(Code::kPrecondition, "frozen"));
  EXPECT_EQ(Begin().error().code(), Code::kPrecondition);
  EXPECT_EQ(dm_.faults.Calls("Resume"), 0);
}

// The stop comes while the suspend waits.
class StoppingDm final : public fakes::FakeDm {
 public:
  Status Suspend(const std::string& uuid, FileSystemLock lock) override {
    stop.request_stop();
    return FakeDm::Suspend(uuid, lock);
  }
  std::stop_source stop;
};

// As the kernel if a write to the other device waits for a page of the first one.
class WaitingDm final : public fakes::FakeDm {
 public:
  Status Suspend(const std::string& uuid, FileSystemLock lock) override {
    while (waits && uuid == kOther && Find(kUuid).value()->suspended) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return FakeDm::Suspend(uuid, lock);
  }
  bool waits = true;
};

class SuspensionsTest : public ::testing::Test {
 protected:
  SuspensionsTest() {
    dm_.AddDevice(kUuid, "vg-one", kMiB);
    dm_.AddDevice(kOther, "vg-two", kMiB);
  }
  static Status Add(Suspensions& all, const char* uuid) {
    return all.Add(uuid, FileSystemLock::kTake, CallWithin(std::chrono::seconds(30)));
  }
  bool IsSuspended(const char* uuid) { return dm_.Find(uuid).value()->suspended; }

  WaitingDm dm_;
};

TEST_F(SuspensionsTest, ASuspendThatWaitsForAnotherOneEnds) {
  Suspensions all(dm_, std::chrono::milliseconds(50), 2);
  ASSERT_TRUE(Add(all, kUuid).has_value());
  EXPECT_TRUE(IsSuspended(kUuid));
  const Status waited = Add(all, kOther);
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().code(), Code::kTimeout);
  EXPECT_FALSE(IsSuspended(kUuid));
  EXPECT_FALSE(IsSuspended(kOther));
  EXPECT_EQ(Add(all, kUuid).error().code(), Code::kTimeout);
  EXPECT_EQ(all.Check().error().code(), Code::kTimeout);
  EXPECT_EQ(all.End().error().code(), Code::kTimeout);
  EXPECT_FALSE(IsSuspended(kUuid));
}

TEST_F(SuspensionsTest, TheEndSaysWhetherTheLimitWasKept) {
  dm_.waits = false;
  {
    Suspensions kept(dm_, std::chrono::seconds(30), 2);
    ASSERT_TRUE(Add(kept, kUuid).has_value());
    ASSERT_TRUE(Add(kept, kOther).has_value());
    EXPECT_TRUE(kept.Check().has_value());
    EXPECT_TRUE(kept.End().has_value());
    EXPECT_FALSE(IsSuspended(kUuid));
    EXPECT_FALSE(IsSuspended(kOther));
  }
  Suspensions late(dm_, std::chrono::milliseconds(20), 2);
  ASSERT_TRUE(Add(late, kUuid).has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(IsSuspended(kUuid));
  EXPECT_EQ(late.End().error().code(), Code::kTimeout);
}

TEST_F(SuspensionsTest, WhatIsNotEndedIsResumedAtTheEndOfItsLife) {
  {
    Suspensions all(dm_, std::chrono::seconds(30), 1);
    ASSERT_TRUE(Add(all, kUuid).has_value());
    dm_.faults.FailNth("Resume", 1, Error(Code::kUnavailable, "no memory"));
    EXPECT_EQ(all.End().error().code(), Code::kUnavailable);
    EXPECT_TRUE(IsSuspended(kUuid));
  }
  EXPECT_FALSE(IsSuspended(kUuid));
  const Suspensions unused(dm_, std::chrono::seconds(30), 1);
}

TEST_F(SuspensionTest, ADeviceThatWasSuspendedTooLateIsResumed) {
  StoppingDm dm;
  dm.AddDevice(kUuid, "vg-one", kMiB);
  Call call = CallWithin(std::chrono::seconds(30));
  call.stop = dm.stop.get_token();
  EXPECT_EQ(Suspension::Begin(dm, kUuid, FileSystemLock::kTake, call).error().code(), Code::kCancelled);
  EXPECT_FALSE(dm.Find(kUuid).value()->suspended);
  EXPECT_EQ(dm.faults.Calls("Suspend"), 1);
}

}  // namespace
}  // namespace quarry::dm
