// Runs on the test host, with whatever disks it has.
#include "udev/kernel_udev.h"

#include <poll.h>

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace quarry::udev {
namespace {

TEST(KernelUdev, KnowsEachDiskOnceAndByItsNumber) {
  KernelUdev udev;
  const auto disks = udev.Inventory();
  ASSERT_TRUE(disks.has_value()) << disks.error().message();
  std::set<std::string> names;
  for (const Disk& disk : *disks) {
    EXPECT_TRUE(names.insert(disk.name).second) << disk.name;
    EXPECT_GT(disk.size.value, 0U) << disk.name;
    EXPECT_NE(std::ranges::find(Transports(), disk.transport), Transports().end()) << disk.transport;
    const auto number = udev.NumberOf(disk.node);
    ASSERT_TRUE(number.has_value());
    if (number->has_value()) {  // a container may lack the node
      EXPECT_EQ(**number, disk.number) << disk.name;
    }
  }
}

TEST(KernelUdev, OtherFilesHaveNoNumber) {
  KernelUdev udev;
  EXPECT_EQ(*udev.NumberOf("/dev/null"), std::nullopt);
  EXPECT_EQ(*udev.NumberOf("/nothing/here"), std::nullopt);
}

TEST(KernelUdev, AMonitorHasNoNewsWhereNothingHappens) {
  KernelUdev udev;
  const auto monitor = udev.Watch();
  if (!monitor.has_value()) {
    GTEST_SKIP() << monitor.error().message();  // no netlink here
  }
  pollfd ready{(*monitor)->fd(), POLLIN, 0};
  EXPECT_GE(poll(&ready, 1, 0), 0);
  EXPECT_EQ(ready.revents & POLLNVAL, 0);
  (void)(*monitor)->Drain();  // the result depends on this host; the call must return
}

}  // namespace
}  // namespace quarry::udev
