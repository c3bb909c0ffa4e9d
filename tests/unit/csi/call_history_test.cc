#include "csi/call_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::csi {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

CallFacts Facts(const std::string& id) {
  return {.record = std::make_shared<CallRecord>(id), .method = "CreateVolume", .version = "v1"};
}

TEST(CallHistory, ARunningCallIsListedUntilItEnds) {
  CallHistory history;
  CallFacts call = Facts("a");
  history.Begin(call);
  ASSERT_THAT(history.Calls(), SizeIs(1));
  EXPECT_EQ(history.Calls()[0].code, "");
  EXPECT_GT(history.Calls()[0].took.count(), 0);
  call.code = "ok";
  call.took = milliseconds(5);
  history.End(call, true);
  ASSERT_THAT(history.Calls(), SizeIs(1));
  EXPECT_EQ(history.Calls()[0].code, "ok");
  EXPECT_EQ(history.Calls()[0].took, milliseconds(5));
}

TEST(CallHistory, AQuickCallThatNeedNotBeKeptIsForgotten) {
  CallHistory history;
  CallFacts call = Facts("a");
  history.Begin(call);
  call.took = CallHistory::kWorthKeeping - milliseconds(1);
  history.End(call, false);
  EXPECT_THAT(history.Calls(), IsEmpty());
  call.took = CallHistory::kWorthKeeping;
  history.End(call, false);
  EXPECT_THAT(history.Calls(), SizeIs(1));
}

TEST(CallHistory, TheOldestCallMakesRoomForTheNewest) {
  CallHistory history;
  for (size_t i = 0; i < CallHistory::kMostCalls + 10; ++i) {
    history.End(Facts(std::to_string(i)), true);
  }
  const CallFacts running = Facts("running");
  history.Begin(running);
  const auto calls = history.Calls();
  ASSERT_THAT(calls, SizeIs(CallHistory::kMostCalls + 1));
  EXPECT_EQ(calls[0].record->id(), "running");
  EXPECT_EQ(calls[1].record->id(), std::to_string(CallHistory::kMostCalls + 9));
  EXPECT_EQ(calls.back().record->id(), "10");
}

}  // namespace
}  // namespace quarry::csi
