// Reading a pool whose disks may not answer: which caller waits, and for how long.
#include "engine/pool/lookout.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

Call Soon() {
  return CallWithin(seconds(20));
}

// A group whose disk can be made silent.
class Told {
 public:
  Result<lvm::Snapshot> Read(const Call& call) {
    ++reads;
    while (silent && call.Check("reading").has_value()) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    QUARRY_TRY(call.Check("reading"));
    if (failing) {
      return Error(Code::kNotFound, "no such group");
    }
    lvm::VolumeGroup group;
    group.seqno = ++commits;
    return std::make_shared<const lvm::VolumeGroup>(std::move(group));
  }
  std::atomic<int> reads = 0;
  std::atomic<uint64_t> commits = 0;
  std::atomic<bool> silent = false;
  std::atomic<bool> failing = false;
};

class LookoutTest : public testing::Test {
 protected:
  Told told_;
  Lookout lookout_{[this](const Call& call) { return told_.Read(call); }};
};

TEST_F(LookoutTest, EveryAnswerIsNewerThanItsQuestion) {
  for (int i = 0; i < 100; ++i) {
    const uint64_t before = told_.commits;
    const auto group = lookout_.Look(seconds(10), Soon());
    ASSERT_TRUE(group.has_value()) << group.error().message();
    EXPECT_GT((*group)->seqno, before);
  }
}

TEST_F(LookoutTest, ManySimultaneousQuestionsShareFewReadings) {
  told_.silent = true;
  std::vector<std::jthread> callers;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 20; ++i) {
    callers.emplace_back([&] { answered += lookout_.Look(seconds(10), Soon()).has_value() ? 1 : 0; });
  }
  while (told_.reads == 0) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(100));  // the others have asked by now
  told_.silent = false;
  callers.clear();
  EXPECT_EQ(answered, 20);
  EXPECT_LT(told_.reads, 10);
}

TEST_F(LookoutTest, OnlyTheFirstCallerWaitsForASilentGroup) {
  told_.silent = true;
  const auto first = lookout_.Look(milliseconds(300), Soon());
  EXPECT_EQ(first.error().code(), Code::kUnavailable);
  const auto begin = steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(lookout_.Look(milliseconds(300), Soon()).error().code(), Code::kUnavailable);
  }
  EXPECT_LT(steady_clock::now() - begin, seconds(10)) << "30 s if each call had waited";
  EXPECT_EQ(told_.reads, 1);
  EXPECT_TRUE(lookout_.failing_since().has_value());

  told_.silent = false;
  EXPECT_TRUE(lookout_.Look(seconds(10), Soon()).has_value()) << "as soon as it answers";
  EXPECT_FALSE(lookout_.failing_since().has_value());
}

TEST_F(LookoutTest, ACallersOwnDeadlineIsNotThePoolsFault) {
  told_.silent = true;
  EXPECT_EQ(lookout_.Look(seconds(10), CallWithin(milliseconds(50))).error().code(), Code::kTimeout);
}

TEST_F(LookoutTest, AMissingGroupIsReadRarelyAndItsReturnIsNoticed) {
  told_.failing = true;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(lookout_.Look(seconds(10), Soon()).error().code(), Code::kNotFound);
  }
  EXPECT_LT(told_.reads, 50);
  told_.failing = false;
  lookout_.Forget();
  EXPECT_TRUE(lookout_.Look(seconds(10), Soon()).has_value());
  told_.failing = true;
  EXPECT_FALSE(lookout_.Look(seconds(10), Soon()).has_value());
  told_.failing = false;
  const auto end = steady_clock::now() + seconds(20);
  while (!lookout_.Look(seconds(10), Soon()).has_value() && steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(lookout_.Look(seconds(10), Soon()).has_value()) << "the return is noticed without Forget";
}

TEST_F(LookoutTest, TheDestructorEndsAReadingUnderWay) {
  told_.silent = true;
  Lookout other([this](const Call& call) { return told_.Read(call); });
  EXPECT_FALSE(other.Look(milliseconds(10), Soon()).has_value());
}

}  // namespace
}  // namespace quarry::engine
