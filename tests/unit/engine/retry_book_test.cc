// When a step that failed may be tried again.
#include "engine/repair/retry_book.h"

#include <vector>

#include <gtest/gtest.h>

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kFirst{10'000};
const RetryKey kVolume{RetryKey::Step::kRefresh, "default/qv1"};

class RetryBookTest : public testing::Test {
 protected:
  RetryBook book_;
  SteadyTime now_{std::chrono::hours(1)};
};

TEST_F(RetryBookTest, AStepThatWasNeverTriedIsDue) {
  EXPECT_EQ(book_.Wait(kVolume, now_), std::nullopt);
  EXPECT_EQ(book_.Attempts(kVolume), 0);
}

TEST_F(RetryBookTest, AFailedStepIsDueAgainAfterItsDelay) {
  book_.PutOff(kVolume, kFirst, now_);
  EXPECT_EQ(book_.Wait(kVolume, now_), kFirst);
  EXPECT_EQ(book_.Wait(kVolume, now_ + seconds(9)), seconds(1));
  EXPECT_EQ(book_.Wait(kVolume, now_ + kFirst), std::nullopt);
  EXPECT_EQ(book_.Attempts(kVolume), 1) << "the attempt is remembered when the step is due";
}

TEST_F(RetryBookTest, TheWaitIsRoundedUpSoThatTheStepIsDueThen) {
  book_.PutOff(kVolume, kFirst, now_);
  EXPECT_EQ(book_.Wait(kVolume, now_ + std::chrono::nanoseconds(1)), kFirst);
}

TEST_F(RetryBookTest, EachAttemptDoublesTheDelayUpToTheLimit) {
  std::vector<milliseconds> delays;
  for (int i = 0; i < 10; ++i) {
    book_.PutOff(kVolume, kFirst, now_);
    delays.push_back(book_.Wait(kVolume, now_).value_or(milliseconds(0)));
  }
  EXPECT_EQ(delays[0], seconds(10));
  EXPECT_EQ(delays[1], seconds(20));
  EXPECT_EQ(delays[2], seconds(40));
  EXPECT_EQ(delays[7], seconds(1280));
  EXPECT_EQ(delays[8], kLongestRetry);
  EXPECT_EQ(delays[9], kLongestRetry);
  EXPECT_EQ(book_.Attempts(kVolume), 10);
}

TEST_F(RetryBookTest, ALongerFirstDelayRaisesAShorterOne) {
  book_.PutOff(kVolume, seconds(10), now_);
  book_.PutOff(kVolume, seconds(30), now_);
  EXPECT_EQ(book_.Wait(kVolume, now_), seconds(30));
}

TEST_F(RetryBookTest, AForgottenStepStartsAgainWithTheFirstDelay) {
  book_.PutOff(kVolume, kFirst, now_);
  book_.PutOff(kVolume, kFirst, now_);
  book_.Forget(kVolume);
  EXPECT_EQ(book_.Wait(kVolume, now_), std::nullopt);
  EXPECT_EQ(book_.Attempts(kVolume), 0);
  book_.PutOff(kVolume, kFirst, now_);
  EXPECT_EQ(book_.Wait(kVolume, now_), kFirst);
}

// The same text stands for a volume and a disk here.
TEST_F(RetryBookTest, StepsOfDifferentKindsDoNotDelayEachOther) {
  using Step = RetryKey::Step;
  const std::vector<RetryKey> keys = {{Step::kRefresh, "x"}, {Step::kScrub, "x"}, {Step::kTakeBack, "x"},
                                      {Step::kRepair},       {Step::kEvacuate},   {Step::kReplaceLeg},
                                      {Step::kLimit}};
  for (const RetryKey& failed : keys) {
    RetryBook book;
    book.PutOff(failed, kFirst, now_);
    for (const RetryKey& key : keys) {
      EXPECT_EQ(book.Wait(key, now_).has_value(), key == failed) << static_cast<int>(key.step);
    }
  }
}

}  // namespace
}  // namespace quarry::engine
