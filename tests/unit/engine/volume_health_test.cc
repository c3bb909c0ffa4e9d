#include "engine/model/volume_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using lvm::Geometry;
using lvm::VolumeType;
using ::testing::HasSubstr;

Geometry Make(VolumeType type, uint32_t stripes = 0, uint32_t mirrors = 0) {
  return *Geometry::Make({.type = type, .stripes = stripes, .mirrors = mirrors});
}

TEST(Survives, TheLossesThatTheTypeAllows) {
  EXPECT_FALSE(Survives(Make(VolumeType::kLinear), {true}));
  EXPECT_TRUE(Survives(Make(VolumeType::kLinear), {false}));
  EXPECT_FALSE(Survives(Make(VolumeType::kStriped, 2), {false, true}));
  EXPECT_FALSE(Survives(Make(VolumeType::kRaid0, 2), {true, false}));
  EXPECT_TRUE(Survives(Make(VolumeType::kRaid1, 0, 2), {true, false, true}));
  EXPECT_FALSE(Survives(Make(VolumeType::kRaid1), {true, true}));
  for (const VolumeType type : {VolumeType::kRaid4, VolumeType::kRaid5}) {
    EXPECT_TRUE(Survives(Make(type, 2), {false, false, true}));
    EXPECT_FALSE(Survives(Make(type, 2), {false, true, true}));
  }
  EXPECT_TRUE(Survives(Make(VolumeType::kRaid6, 3), {true, false, false, false, true}));
  EXPECT_FALSE(Survives(Make(VolumeType::kRaid6, 3), {true, false, true, false, true}));
}

TEST(Survives, Raid10WithOneCopyOfEveryStripe) {
  const Geometry geometry = Make(VolumeType::kRaid10, 2, 1);
  EXPECT_TRUE(Survives(geometry, {true, false, false, true}));
  EXPECT_TRUE(Survives(geometry, {false, true, true, false}));
  EXPECT_FALSE(Survives(geometry, {true, true, false, false}));
  EXPECT_FALSE(Survives(geometry, {false, false, true, true}));
}

class HealthTest : public testing::Test {
 protected:
  HealthTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value},
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    for (const char* path : {"/stage", "/pods"}) {
      mount_.AddDirectory(path);
    }
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }

  static Call Soon() { return CallWithin(std::chrono::milliseconds(20000)); }

  // So large that no disk has space for a second volume.
  std::string Create(const std::string& name, const std::string& type) {
    const auto made = engine_->volumes().Create({.name = name,
                                                 .range = {Bytes{300 * kMiB.value}, {}},
                                                 .capabilities = {{}},
                                                 .parameters = {{"type", type}}},
                                                Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  // The device of the volume itself, without those of its legs.
  std::string DmUuidOf(const std::string& id) {
    const auto group = lvm_.Read("vg0", Soon());
    return lvm::DmUuid((*group)->uuid, (*group)->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
  }
  Health Of(const std::string& id) {
    const auto volume = engine_->volumes().Get(id, Soon(), Show::kHealth);
    EXPECT_TRUE(volume.has_value()) << (volume.has_value() ? "" : volume.error().message());
    return volume.has_value() ? *volume->health : Health();
  }
  void SetMissing(const std::string& device, bool missing) {
    lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::PhysicalVolume& pv : group.pvs) {
        pv.missing = pv.device == device ? missing : pv.missing;
      }
    });
  }
  // The disk with the first extents of the volume, or of its first leg.
  std::string FirstDiskOf(const std::string& id) {
    const auto group = lvm_.Read("vg0", Soon());
    const auto legs = lvm::LegPvs(**group, *(*group)->FindLv(lvm::ParseVolumeId(id)->lv_name));
    return (*group)->FindPv(legs.front().front())->device;
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(HealthTest, AMissingDiskDegradesAMirrorAndFailsALinearVolume) {
  const std::string mirror = Create("mirror", "raid1");
  const std::string linear = Create("linear", "linear");  // on the third disk
  EXPECT_TRUE(Of(mirror).ailments.empty());
  EXPECT_EQ(engine_->volumes().List(0, "", Soon(), Show::kAiling)->volumes.size(), 0U);

  const std::string disk = FirstDiskOf(mirror);
  SetMissing(disk, true);
  ASSERT_EQ(Of(mirror).ailments.size(), 1U);
  EXPECT_EQ(Of(mirror).ailments[0].problem, Problem::kDegraded);
  EXPECT_EQ(Of(mirror).ailments[0].reason, "DiskMissing");
  SetMissing(disk, false);
  EXPECT_TRUE(Of(mirror).ailments.empty()) << "the disk has returned";

  SetMissing(FirstDiskOf(linear), true);
  ASSERT_EQ(Of(linear).ailments.size(), 1U);
  EXPECT_EQ(Of(linear).ailments[0].problem, Problem::kInaccessible);
  EXPECT_THAT(Of(linear).ailments[0].message, HasSubstr("bring it back"));
}

TEST_F(HealthTest, OnlyVolumesOnTheMissingDiskAreListedAsAiling) {
  const std::string one = Create("one", "linear");
  const std::string other = Create("other", "linear");
  SetMissing(FirstDiskOf(one), true);
  const auto ailing = engine_->volumes().List(0, "", Soon(), Show::kAiling);
  ASSERT_TRUE(ailing.has_value());
  ASSERT_EQ(ailing->volumes.size(), 1U);
  EXPECT_EQ(ailing->volumes[0].id, one);
  const auto all = engine_->volumes().List(0, "", Soon(), Show::kHealth);
  ASSERT_EQ(all->volumes.size(), 2U);
  EXPECT_EQ(all->volumes[0].health->ailments.size() + all->volumes[1].health->ailments.size(), 1U);
  EXPECT_FALSE(engine_->volumes().List(0, "", Soon())->volumes[0].health.has_value())
      << "the caller did not ask for the health";
}

TEST_F(HealthTest, TheKernelStatusOfTheLegsIsReported) {
  const std::string id = Create("mirror", "raid1");
  const std::string uuid = DmUuidOf(id);
  ASSERT_TRUE(engine_->volumes()
                  .Publish({id, std::nullopt, *AbsolutePath::Parse("/pods/a"), {}, false}, Soon())
                  .has_value());
  dm::RaidStatus status{.type = "raid1", .legs = "AA", .in_sync = 100, .total = 100, .action = "idle"};
  dm_.SetRaid(uuid, status);
  EXPECT_TRUE(Of(id).ailments.empty());
  EXPECT_EQ(Of(id).note, "");

  status.legs = "aa";
  status.in_sync = 40;
  status.action = "resync";
  dm_.SetRaid(uuid, status);
  EXPECT_TRUE(Of(id).ailments.empty());
  EXPECT_EQ(Of(id).note, "syncing, 40 % done");

  status.legs = "Aa";
  status.action = "recover";
  dm_.SetRaid(uuid, status);
  ASSERT_EQ(Of(id).ailments.size(), 1U);
  EXPECT_EQ(Of(id).ailments[0].reason, "Rebuilding");

  status = {.type = "raid1", .legs = "AD", .in_sync = 100, .total = 100, .action = "idle"};
  dm_.SetRaid(uuid, status);
  ASSERT_EQ(Of(id).ailments.size(), 1U);
  EXPECT_EQ(Of(id).ailments[0].reason, "LegFailed");
  EXPECT_EQ(Of(id).ailments[0].problem, Problem::kDegraded);

  status.legs = "DD";
  dm_.SetRaid(uuid, status);
  EXPECT_EQ(Of(id).ailments[0].problem, Problem::kInaccessible);

  status = {.type = "raid1", .legs = "Aa", .in_sync = 40, .total = 100, .action = "frozen"};
  dm_.SetRaid(uuid, status);
  EXPECT_EQ(Of(id).ailments[0].reason, "OutOfSync");
}

TEST_F(HealthTest, ALegThatBothSourcesMissIsReportedOnce) {
  const std::string id = Create("mirror", "raid1");
  ASSERT_TRUE(engine_->volumes()
                  .Publish({id, std::nullopt, *AbsolutePath::Parse("/pods/a"), {}, false}, Soon())
                  .has_value());
  SetMissing(FirstDiskOf(id), true);
  dm_.SetRaid(DmUuidOf(id),
              dm::RaidStatus{.type = "raid1", .legs = "DA", .in_sync = 1, .total = 1, .action = "idle"});
  ASSERT_EQ(Of(id).ailments.size(), 1U);
  EXPECT_EQ(Of(id).ailments[0].reason, "DiskMissing");
}

TEST_F(HealthTest, AFileSystemThatTheKernelMadeReadOnlyIsReported) {
  const std::string id = Create("v", "linear");
  ASSERT_TRUE(engine_->volumes()
                  .Publish({id, std::nullopt, *AbsolutePath::Parse("/pods/a"), {}, false}, Soon())
                  .has_value());
  EXPECT_TRUE(Of(id).ailments.empty());
  mount_.GoReadOnly(*AbsolutePath::Parse("/pods/a"));
  const auto stats = engine_->volumes().Stats(id, "/pods/a", Soon(), Show::kHealth);
  ASSERT_TRUE(stats.has_value()) << stats.error().message();
  ASSERT_EQ(stats->health->ailments.size(), 1U);
  EXPECT_EQ(stats->health->ailments[0].reason, "FilesystemReadOnly");
  EXPECT_THAT(stats->health->ailments[0].message, HasSubstr("/pods/a"));
}

TEST_F(HealthTest, AFailedQueryIsAnErrorAndNotGoodHealth) {
  const std::string id = Create("mirror", "raid1");
  dm_.faults.FailAlways("Raid", Error(Code::kUnavailable, "no device-mapper"));
  EXPECT_EQ(engine_->volumes().Get(id, Soon(), Show::kHealth).error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace quarry::engine
