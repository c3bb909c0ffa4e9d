#include "daemon/upkeep/node_events.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <thread>

#include "tests/fakes/fake_udev.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough that no test reaches it unless a wait does not end.
SteadyTime Never() {
  return std::chrono::steady_clock::now() + seconds(60);
}

class NodeEventsTest : public testing::Test {
 protected:
  NodeEvents Listen() {
    auto events = NodeEvents::Listen(udev_);
    EXPECT_TRUE(events.has_value());
    return std::move(*events);
  }

  fakes::FakeUdev udev_;
  std::stop_source stop_;
};

TEST_F(NodeEventsTest, AWaitReportsTheDisksThatCameAndWentBeforeIt) {
  NodeEvents events = Listen();
  udev_.Plug(fakes::PlainDisk("sda", "one", kGiB));
  auto happened = events.Wait(stop_.get_token(), {.time = Never()});
  EXPECT_TRUE(happened.disks.came);
  EXPECT_FALSE(happened.disks.went);
  EXPECT_FALSE(happened.timed_out);
  udev_.Unplug("sda");
  happened = events.Wait(stop_.get_token(), {.time = Never()});
  EXPECT_FALSE(happened.disks.came) << "each event is reported once";
  EXPECT_TRUE(happened.disks.went);
}

TEST_F(NodeEventsTest, TwoListenersEachGetEveryEvent) {
  NodeEvents first = Listen();
  NodeEvents second = Listen();
  udev_.Plug(fakes::PlainDisk("sda", "one", kGiB));
  EXPECT_TRUE(first.Wait(stop_.get_token(), {.time = Never()}).disks.came);
  EXPECT_TRUE(second.Wait(stop_.get_token(), {.time = Never()}).disks.came);
}

TEST_F(NodeEventsTest, WithoutAnEventTheWaitEndsAtItsTime) {
  NodeEvents events = Listen();
  const SteadyTime until = std::chrono::steady_clock::now() + milliseconds(20);
  EXPECT_TRUE(events.Wait(stop_.get_token(), {.time = until}).timed_out);
  EXPECT_GE(std::chrono::steady_clock::now(), until);
}

TEST_F(NodeEventsTest, AWakeUpEndsTheNextWaitOnceAndWithoutABreath) {
  NodeEvents events = Listen();
  events.Wake();
  events.Wake();
  const SteadyTime begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(events.Wait(stop_.get_token(), {.time = Never(), .breath = seconds(60)}).timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(30));
  EXPECT_TRUE(events.Wait(stop_.get_token(), {.time = begun}).timed_out);
}

TEST_F(NodeEventsTest, AStopEndsAWaitWithoutATime) {
  NodeEvents events = Listen();
  std::jthread stopper([this] { stop_.request_stop(); });
  EXPECT_FALSE(events.Wait(stop_.get_token(), {}).timed_out);
}

TEST_F(NodeEventsTest, ABreathCollectsTheEventsOfABurst) {
  NodeEvents events = Listen();
  udev_.Plug(fakes::PlainDisk("sda", "one", kGiB));
  std::jthread later([&] {
    udev_.Unplug("sda");
    events.Wake();
  });
  const auto happened = events.Wait(stop_.get_token(), {.time = Never(), .breath = seconds(60)});
  EXPECT_TRUE(happened.disks.came);
  EXPECT_TRUE(happened.disks.went);
}

TEST_F(NodeEventsTest, AnotherDescriptorEndsTheWaitToo) {
  auto events = NodeEvents::WithoutDisks();
  ASSERT_TRUE(events.has_value());
  const UniqueFd other(eventfd(1, EFD_CLOEXEC));
  EXPECT_FALSE(events->Wait(stop_.get_token(), {.time = Never(), .also = other.get()}).timed_out);
}

TEST_F(NodeEventsTest, AKernelWithoutEventsIsReported) {
  udev_.faults.FailAlways("Watch", Error(Code::kUnavailable, "no events"));
  const auto events = NodeEvents::Listen(udev_);
  ASSERT_FALSE(events.has_value());
  EXPECT_EQ(events.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace quarry::daemon
