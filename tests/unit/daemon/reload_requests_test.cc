#include "daemon/reload_requests.h"

#include <atomic>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::daemon {
namespace {

using ::testing::ElementsAre;

class ReloadRequestsTest : public ::testing::Test {
 protected:
  std::future<Result<csi::Reloaded>> Ask() {
    return std::async(std::launch::async,
                      [this] { return requests_.Ask(CallWithin(std::chrono::seconds(60))); });
  }
  void WaitForWakes(int wakes) {
    while (wakes_ < wakes) {
      std::this_thread::yield();
    }
  }
  void Read(const std::string& setting) {
    requests_.Begin();
    requests_.End(csi::Reloaded{.in_force = {setting}, .needs_restart = {}});
  }

  std::atomic<int> wakes_ = 0;
  ReloadRequests requests_{[this] { ++wakes_; }};
};

TEST_F(ReloadRequestsTest, OneReadingAnswersAllCallsThatCameBeforeIt) {
  auto first = Ask();
  auto second = Ask();
  WaitForWakes(2);
  EXPECT_TRUE(requests_.pending());
  Read("log-level");
  EXPECT_FALSE(requests_.pending());
  EXPECT_THAT(first.get()->in_force, ElementsAre("log-level"));
  EXPECT_THAT(second.get()->in_force, ElementsAre("log-level"));
}

// The reading may have looked at the file before the caller wrote it.
TEST_F(ReloadRequestsTest, AReadingThatBeganBeforeTheCallDoesNotAnswerIt) {
  requests_.Begin();
  auto late = Ask();
  WaitForWakes(1);
  requests_.End(csi::Reloaded{.in_force = {"early"}, .needs_restart = {}});
  EXPECT_TRUE(requests_.pending());
  Read("late");
  EXPECT_THAT(late.get()->in_force, ElementsAre("late"));
}

TEST_F(ReloadRequestsTest, TheErrorOfAReadingReachesTheCaller) {
  auto asked = Ask();
  WaitForWakes(1);
  requests_.Begin();
  requests_.End(Error(Code::kInvalidArgument, "line 2"));
  const auto answer = asked.get();
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Code::kInvalidArgument);
}

TEST_F(ReloadRequestsTest, AStopEndsTheWait) {
  auto asked = Ask();
  WaitForWakes(1);
  requests_.Close();
  EXPECT_EQ(asked.get().error().code(), Code::kUnavailable);
  EXPECT_EQ(Ask().get().error().code(), Code::kUnavailable);
}

TEST_F(ReloadRequestsTest, ACallThatEndsGetsNoAnswer) {
  EXPECT_EQ(requests_.Ask(CallWithin(std::chrono::milliseconds(1))).error().code(), Code::kTimeout);
  Read("log-level");
}

}  // namespace
}  // namespace quarry::daemon
