#include "daemon/upkeep/disk_watcher.h"

#include <gtest/gtest.h>

#include <thread>

#include "daemon/upkeep/look_schedule.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_udev.h"
#include "tests/fakes/fake_world.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LookSchedule, LooksAtOnceAndAFewMoreTimesThenRests) {
  const SteadyTime start{};
  LookSchedule schedule;
  EXPECT_FALSE(schedule.due().has_value());
  schedule.DiskCame(start);
  EXPECT_EQ(schedule.due(), start);
  int looks = 0;
  SteadyTime now = start;
  while (schedule.due().has_value() && looks < 100) {
    now = *schedule.due();
    schedule.Looked(now, false);
    ++looks;
  }
  EXPECT_EQ(looks, 5);
  EXPECT_GT(now, start + seconds(10)) << "udevd had time to make its links";
  schedule.DiskCame(now);
  EXPECT_EQ(schedule.due(), now);
}

TEST(LookSchedule, RepeatsAFailedLookUntilOneSucceeds) {
  LookSchedule schedule;
  SteadyTime now{};
  schedule.DiskCame(now);
  for (int i = 0; i < 20; ++i) {
    schedule.Looked(now, true);
    ASSERT_TRUE(schedule.due().has_value());
    EXPECT_GT(*schedule.due(), now);
    now = *schedule.due();
  }
  schedule.Looked(now, false);
  EXPECT_FALSE(schedule.due().has_value());
}

TEST(DiskWatcher, APluggedInDiskJoinsItsPool) {
  fakes::FakeLvm lvm;
  fakes::FakeDm dm;
  fakes::FakeErase erase;
  fakes::FakeMount mount(dm);
  fakes::FakeUdev udev;
  const SystemClock clock;
  const Logger log(LogLevel::kError, LogFormat::kText);
  lvm.AddGroup("vg", Bytes{4 * kMiB.value}, {{"/dev/nvme0n1", Extents{50}}});
  engine::EngineConfig config;
  config.pools = {{.name = "p", .group = "vg"}};
  config.pools.front().devices = {{.transport = "nvme"}};
  engine::Engine engine(
      config,
      fakes::FakeWorld{.lvm = lvm, .dm = dm, .erase = erase, .mount = mount, .clock = clock, .udev = udev},
      log);
  auto events = NodeEvents::Listen(udev);
  ASSERT_TRUE(events.has_value());
  const std::jthread watcher = WatchDisks(engine, std::move(*events), log);
  ASSERT_TRUE(engine.lifecycle().Start(CallWithin(seconds(20))).has_value());
  udev.Unplug("nothing");  // no disk arrived: no search
  lvm.AddBlankDisk({"/dev/nvme1n1", Extents{50}});
  mount.SetDiskContent("/dev/nvme1n1", {});
  udev.Plug(fakes::PlainDisk("nvme1n1", "new", kGiB));
  const auto limit = std::chrono::steady_clock::now() + seconds(20);
  const auto joined = [&] { return (*lvm.Read("vg", CallWithin(seconds(20))))->pvs.size() == 2; };
  while (!joined() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(joined());
}

}  // namespace
}  // namespace quarry::daemon
