// What a start does with leftovers of an earlier process or of a killed LVM.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};

class ReconcileTest : public testing::Test {
 protected:
  ReconcileTest() {
    lvm_.AddGroup("vg-0", kExtent, {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}});
    fakes::Follow(lvm_, dm_);
  }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }

  Status Start() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "p", .group = "vg-0"}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    return engine_->lifecycle().Start(Soon());
  }
  std::string Create(const std::string& name) {
    const auto made = engine_->volumes().Create({.name = name,
                                                 .range = {Bytes{4 * kExtent.value}, {}},
                                                 .capabilities = {{}},
                                                 .parameters = {{"type", "raid1"}}},
                                                Soon());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return made->volume.id;
  }
  lvm::Snapshot Group() { return *lvm_.Read("vg-0", Soon()); }
  bool HasDevice(const std::string& uuid) { return dm_.Find(uuid)->has_value(); }
  // A UUID like those that LVM gives an LV: 32 characters.
  std::string Uuid(char filler) { return lvm::DmUuid(Group()->uuid, std::string(32, filler)); }
  void AddLv(const std::string& name, const std::vector<std::string>& tags) {
    lvm_.Edit("vg-0", [&](lvm::VolumeGroup& group) {
      lvm::LogicalVolume lv;
      lv.name = name;
      lv.uuid = "uuid-of-" + name;
      lv.size = kExtent;
      lv.segment_type = "linear";
      lv.tags = tags;
      lvm::Segment segment;
      segment.type = "linear";
      segment.logical = {Extents{0}, Extents{1}};
      segment.areas = {{group.pvs.front().uuid, "", {group.pvs.front().free.front().first, Extents{1}}}};
      lv.segments = {segment};
      group.lvs.push_back(lv);
    });
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(ReconcileTest, OnlyManagedDevicesWithoutALogicalVolumeAreRemoved) {
  ASSERT_TRUE(Start().has_value());
  Create("stays");
  const std::string ours = lvm::NewLvName();
  const std::string other_group = lvm::DmUuid(std::string(32, 'g'), std::string(32, 'x'));
  dm_.AddDevice(Uuid('a'), lvm::DmName("vg-0", ours), kExtent);
  dm_.AddDevice(Uuid('b'), lvm::DmName("vg-0", ours + "_rmeta_0"), kExtent);
  dm_.AddDevice(Uuid('c'), lvm::DmName("vg-0", "root"), kExtent);
  dm_.AddDevice(Uuid('d'), lvm::DmName("vg-0", ours + "-real"), kExtent);
  dm_.AddDevice(other_group, lvm::DmName("vg-0", ours), kExtent);
  const size_t before = dm_.Devices().size();
  ASSERT_TRUE(Start().has_value());
  EXPECT_EQ(dm_.Devices().size(), before - 2);
  EXPECT_FALSE(HasDevice(Uuid('a')));
  EXPECT_FALSE(HasDevice(Uuid('b')));
  EXPECT_TRUE(HasDevice(Uuid('c')));
  EXPECT_TRUE(HasDevice(Uuid('d')));
  EXPECT_TRUE(HasDevice(other_group));
}

// A command of another process finishes the create between the read and the removal.
TEST_F(ReconcileTest, AVolumeThatLosesItsMarkerIsNotRemoved) {
  const std::string finished = lvm::NewLvName();
  const std::string half_made = lvm::NewLvName();
  AddLv(finished, {std::string(lvm::kCreatingTag)});
  AddLv(half_made, {std::string(lvm::kCreatingTag)});
  int reads = 0;
  bool done = false;
  lvm_.SetOnCall([&](const std::string& method) {
    reads += method == "Read" ? 1 : 0;
    if (!done && (reads == 2 || method == "Remove")) {
      done = true;
      lvm_.Edit("vg-0", [&](lvm::VolumeGroup& group) {
        for (lvm::LogicalVolume& lv : group.lvs) {
          if (lv.name == finished) {
            lv.tags.clear();
          }
        }
      });
    }
  });
  ASSERT_TRUE(Start().has_value());
  lvm_.SetOnCall(nullptr);
  EXPECT_NE(Group()->FindLv(finished), nullptr);
  EXPECT_EQ(Group()->FindLv(half_made), nullptr);
}

TEST_F(ReconcileTest, ADeviceInUseIsKeptAndTheStartContinues) {
  ASSERT_TRUE(Start().has_value());
  dm_.AddDevice(Uuid('a'), lvm::DmName("vg-0", lvm::NewLvName()), kExtent);
  dm_.KernelOpen(Uuid('a'), 1);
  EXPECT_TRUE(Start().has_value());
  EXPECT_TRUE(HasDevice(Uuid('a')));
}

TEST_F(ReconcileTest, LegsActiveWithoutTheirVolumeAreRemoved) {
  ASSERT_TRUE(Start().has_value());
  const std::string id = Create("one");
  const std::string name = lvm::ParseVolumeId(id)->lv_name;
  const std::string leg = lvm::DmUuid(Group()->uuid, Group()->FindLv(name + "_rimage_0")->uuid);
  const std::string top = lvm::DmUuid(Group()->uuid, Group()->FindLv(name)->uuid);
  const auto add_leg = [&] { dm_.AddDevice(leg, lvm::DmName("vg-0", name + "_rimage_0"), kExtent); };
  add_leg();
  ASSERT_TRUE(Start().has_value());
  EXPECT_TRUE(HasDevice(top));
  EXPECT_TRUE(HasDevice(leg)) << "its volume is on it";
  ASSERT_TRUE(dm_.RemoveDevice(top).has_value());
  ASSERT_TRUE(Start().has_value());
  EXPECT_FALSE(HasDevice(leg));

  add_leg();  // found only when the volume is used
  mount_.AddDirectory("/stage");
  EXPECT_TRUE(engine_->volumes().Stage({id, *AbsolutePath::Parse("/stage"), {}}, Soon()).has_value());
  EXPECT_TRUE(HasDevice(top));
  EXPECT_FALSE(HasDevice(leg));
}

TEST_F(ReconcileTest, AVolumeLeftSuspendedIsResumed) {
  ASSERT_TRUE(Start().has_value());
  Create("one");
  const std::string uuid = dm_.Devices().front().uuid;
  dm_.SetSuspended(uuid, true);
  int activated = 0;
  lvm_.SetOnCall([&](const std::string& method) { activated += method == "Activate" ? 1 : 0; });
  ASSERT_TRUE(Start().has_value());
  EXPECT_EQ(activated, 1);
  dm_.SetSuspended(uuid, false);
  ASSERT_TRUE(Start().has_value());
  EXPECT_EQ(activated, 1);
  lvm_.SetOnCall(nullptr);
}

// Another LVM command has created the device, and is about to load its table.
TEST_F(ReconcileTest, ADeviceWithoutTableDoesNotCountAsActive) {
  ASSERT_TRUE(Start().has_value());
  const std::string id = Create("one");
  dm_.TakeTable(dm_.Devices().front().uuid);
  const auto staged = engine_->volumes().Stage({id, *AbsolutePath::Parse("/stage"), {}}, Soon());
  EXPECT_TRUE(staged.has_value()) << staged.error().message();
}

// LVM was killed between loading the table of a growth that was never committed and loading the table of the
// metadata.
TEST_F(ReconcileTest, ADeviceThatMapsTooManyExtentsIsReloaded) {
  ASSERT_TRUE(Start().has_value());
  const std::string name = lvm::ParseVolumeId(Create("v"))->lv_name;
  ASSERT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg-0", {name}}, Soon()).has_value());
  ASSERT_TRUE(Start().has_value());
  EXPECT_EQ(lvm_.before.Calls("Refresh"), 0) << "it maps only its own extents";
  const lvm::Snapshot group = Group();
  const lvm::LogicalVolume& lv = *group->FindLv(name);
  const lvm::PhysicalVolume& pv = group->pvs.front();
  const auto own = lvm::PhysicalExtents(*group, lv);
  const auto here = std::ranges::find(own, pv.uuid, &lvm::PhysicalRange::pv_uuid);
  ASSERT_NE(here, own.end());
  const Bytes offset = pv.pe_start + ToBytes(here->range.first, kExtent);
  const Bytes more = ToBytes(here->range.count, kExtent) + Bytes{20 * kExtent.value};
  dm_.SetMappings(lvm::DmUuid(group->uuid, lv.uuid), pv.device, {{offset, more}});
  ASSERT_TRUE(Start().has_value());
  EXPECT_EQ(lvm_.before.Calls("Refresh"), 1);
}

TEST_F(ReconcileTest, AKilledGrowthLeavesTheVolumeRunning) {
  ASSERT_TRUE(Start().has_value());
  const std::string id = Create("one");
  const std::string uuid = dm_.Devices().front().uuid;
  int activated = 0;
  lvm_.before.FailNth("Extend", 1, Error(Code::kTimeout, "killed"));
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Extend" || method == "Activate") {
      dm_.SetSuspended(uuid, method == "Extend");
      activated += method == "Activate" ? 1 : 0;
    }
  });
  const auto grown = engine_->volumes().Expand(id, {Bytes{8 * kExtent.value}, {}}, std::nullopt, Soon());
  lvm_.SetOnCall(nullptr);
  EXPECT_EQ(grown.error().code(), Code::kTimeout);
  EXPECT_EQ(activated, 1);
  EXPECT_TRUE(
      engine_->volumes().Expand(id, {Bytes{8 * kExtent.value}, {}}, std::nullopt, Soon()).has_value());
}

// LVM loads no table where one waits, and its resume would use the one that waits, of whatever size.
TEST_F(ReconcileTest, TheTableOfAKilledGrowthIsNotUsedByTheNextOne) {
  ASSERT_TRUE(Start().has_value());
  const auto linear = engine_->volumes().Create({.name = "linear",
                                                 .range = {Bytes{4 * kExtent.value}, {}},
                                                 .capabilities = {{}},
                                                 .parameters = {{"type", "linear"}}},
                                                Soon());
  ASSERT_TRUE(linear.has_value());
  for (const std::string& id : {Create("raid1"), linear->volume.id}) {
    const lvm::Snapshot group = Group();
    const std::string uuid = lvm::DmUuid(group->uuid, group->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
    dm_.faults.FailAlways("Resume", Error(Code::kInternal, "this would use it"));
    dm_.LoadTable(uuid);
    bool waited = false;
    lvm_.SetOnCall([&](const std::string& method) {
      waited = waited || (method == "Extend" && (*dm_.Find(uuid))->waiting_table);
    });
    const auto grown = engine_->volumes().Expand(id, {Bytes{8 * kExtent.value}, {}}, std::nullopt, Soon());
    EXPECT_TRUE(grown.has_value()) << grown.error().message();
    EXPECT_FALSE(waited);
    EXPECT_FALSE((*dm_.Find(uuid))->waiting_table);
    lvm_.SetOnCall(nullptr);
    dm_.faults.Clear();
  }
}

TEST_F(ReconcileTest, ManagedLegsWithoutAVolumeAreRemoved) {
  ASSERT_TRUE(Start().has_value());
  const std::string ours = lvm::NewLvName();
  const std::string marker(lvm::kCreatingTag);
  AddLv(ours + "_rmeta_0", {marker});
  AddLv(ours + "_rmeta_1", {});
  AddLv("root_rmeta_0", {marker});
  ASSERT_TRUE(Start().has_value());
  EXPECT_EQ(Group()->FindLv(ours + "_rmeta_0"), nullptr);
  EXPECT_NE(Group()->FindLv(ours + "_rmeta_1"), nullptr);
  EXPECT_NE(Group()->FindLv("root_rmeta_0"), nullptr);
}

TEST_F(ReconcileTest, AVisibleLegOfAnExistingVolumeIsNotTouched) {
  ASSERT_TRUE(Start().has_value());
  const std::string id = Create("one");
  const std::string lv = lvm::ParseVolumeId(id)->lv_name;
  AddLv(lv + "_rmeta_7", {std::string(lvm::kCreatingTag)});
  ASSERT_TRUE(Start().has_value());
  EXPECT_NE(Group()->FindLv(lv + "_rmeta_7"), nullptr);
  EXPECT_TRUE(engine_->volumes().Get(id, Soon()).has_value());
}

TEST_F(ReconcileTest, AStartFailsIfThePoolCannotBeRead) {
  dm_.faults.FailNth("List", 1, Error(Code::kUnavailable, "no device-mapper"));
  EXPECT_EQ(Start().error().code(), Code::kUnavailable);
  EXPECT_TRUE(Start().has_value());
}

}  // namespace
}  // namespace quarry::engine
