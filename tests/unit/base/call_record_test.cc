#include "base/call_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace quarry {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CallRecord, AStepHasItsTextItsPlaceAndItsLength) {
  CallRecord record("id");
  record.Add("step", record.start() + milliseconds(2), record.start() + milliseconds(5));
  const CallRecord::Steps steps = record.steps();
  ASSERT_THAT(steps.steps, SizeIs(1));
  EXPECT_EQ(steps.steps[0].text, "step");
  EXPECT_EQ(steps.steps[0].from, milliseconds(2));
  EXPECT_EQ(steps.steps[0].took, milliseconds(3));
}

TEST(CallRecord, StepsAndTheirTextsAreLimited) {
  CallRecord record("id");
  for (size_t i = 0; i < CallRecord::kMostSteps + 7; ++i) {
    record.Add(std::string(1000, 'x') + "é", record.start(), record.start());
  }
  EXPECT_THAT(record.steps().steps, SizeIs(CallRecord::kMostSteps));
  EXPECT_EQ(record.steps().forgotten, 7U);
  EXPECT_EQ(record.steps().steps[0].text.size(), CallRecord::kMostText);
}

TEST(CallRecord, ATextIsNotCutInsideACharacter) {
  CallRecord record("id");
  record.Add(std::string(CallRecord::kMostText - 1, 'x') + "é", record.start(), record.start());
  EXPECT_EQ(record.steps().steps[0].text, std::string(CallRecord::kMostText - 1, 'x'));
}

TEST(CallRecord, StepsOfSeveralThreadsAreAllRecorded) {
  CallRecord record("id");
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&record] {
        for (int n = 0; n < 50; ++n) {
          record.Add("x", record.start(), record.start());
        }
      });
    }
  }
  EXPECT_EQ(record.steps().steps.size() + record.steps().forgotten, 200U);
}

TEST(TimedStep, ACallWithoutRecordNeverAsksForTheText) {
  const TimedStep step(Call{}, []() -> std::string { throw std::logic_error("asked"); });
}

TEST(TimedStep, ACallWithARecordGetsTheStepAtItsEnd) {
  const auto record = std::make_shared<CallRecord>("id");
  const Call call{.record = record};
  {
    const TimedStep step(call.Within(milliseconds(1000)), [] { return "inner"; });
    EXPECT_THAT(record->steps().steps, IsEmpty());
  }
  ASSERT_THAT(record->steps().steps, SizeIs(1));
  EXPECT_EQ(record->steps().steps[0].text, "inner");
}

TEST(TimedStep, AShortWaitIsNoStep) {
  const auto record = std::make_shared<CallRecord>("id");
  const Call call{.record = record};
  {
    const TimedStep step(call, [] { return "wait"; }, std::chrono::hours(1));
  }
  EXPECT_THAT(record->steps().steps, IsEmpty());
}

}  // namespace
}  // namespace quarry
