// Copies and snapshots of volumes that are in use (parameter inuse=cow): whose bytes they have, what goes on
// meanwhile, and that nothing of the temporary store stays, whatever ends the copy.
#include <thread>

#include "engine/plan/plan_cow.h"
#include "tests/unit/engine/bound_store.h"
#include "tests/unit/engine/copy_fixture.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent = kCopyExtent;
const Parameters kCow = {{"inuse", "cow"}};

class CopyInUseTest : public CopyFixture {
 protected:
  Result<SnapshotResult> Snap(const std::string& name, const std::string& source,
                              const Parameters& parameters = kCow, int ms = 20000) {
    return engine_->snapshots().Create({name, source, parameters}, Soon(ms));
  }
  Status PublishAt(const std::string& id, const std::string& target) {
    const Capability block{.access = AccessType::kBlock};
    QUARRY_TRY(engine_->volumes().Stage({id, Path("/stage/r"), block}, Soon()));
    return engine_->volumes().Publish({id, Path("/stage/r"), Path(target), block}, Soon());
  }
  // A raw volume of 4 extents that is published, and begins with "before".
  std::string MakeUsed(const std::string& name, const Parameters& parameters = {}) {
    std::string id = Make({.name = name, .extents = 4, .parameters = parameters});
    EXPECT_TRUE(PublishAt(id, "/pods/" + name).has_value());
    Write(id, "before", 0);
    return id;
  }
  std::string Restored(const std::string& snapshot) {
    const std::string id = Make({.name = "restored " + snapshot, .extents = 4, .source = {snapshot, true}});
    return id.empty() ? "" : Read(id, 6, 0);
  }
  bool IsAlone(const std::string& id) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    return group->FindLv(lvm::ParseVolumeId(id)->lv_name)->independent;
  }
};

TEST_F(CopyInUseTest, NeedsTheCallersPermission) {
  const std::string source = MakeUsed("one");
  for (const Parameters& parameters : {Parameters{}, Parameters{{"inuse", "refuse"}}}) {
    const auto refused = Snap("snap", source, parameters);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Code::kPrecondition);
    EXPECT_TRUE(refused.error().message().contains("'inuse'")) << refused.error().message();
  }
  const auto wrong = Snap("snap", source, {{"inuse", "yes"}});
  EXPECT_EQ(wrong.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(wrong.error().message().contains("parameters['inuse']")) << wrong.error().message();
  EXPECT_EQ(LvCount(), 1U);
}

TEST_F(CopyInUseTest, IsNoPartOfWhatAVolumeIs) {
  const std::string id = Make({.name = "one", .extents = 4, .parameters = kCow});
  EXPECT_EQ(Make({.name = "one", .extents = 4}), id);
  EXPECT_TRUE(
      engine_->volumes()
          .Validate(
              {.id = id, .capabilities = {{.access = AccessType::kBlock}}, .parameters = kCow, .context = {}},
              Soon())
          ->confirmed);
  EXPECT_GT(engine_->volumes().Capacity({{.access = AccessType::kBlock}}, kCow, Soon())->available, Bytes{});
}

TEST_F(CopyInUseTest, ASnapshotHasTheBytesOfItsInstant) {
  for (const char* type : {"linear", "striped", "raid1"}) {
    SCOPED_TRACE(type);
    const std::string source = MakeUsed(type, {{"type", type}});
    steps_.Hold();
    Result<SnapshotResult> made = Error(Code::kInternal, "not yet");
    std::jthread caller([&] { made = Snap(std::string("of ") + type, source); });
    steps_.WaitForArrival();
    const auto cut = std::chrono::system_clock::now();
    Write(source, "after!", 0);
    EXPECT_FALSE(IsAlone(source));

    // The volume is used as before, and nothing ends or changes it.
    EXPECT_TRUE(PublishAt(source, std::string("/pods/second ") + type).has_value());
    EXPECT_TRUE(
        engine_->volumes().Unpublish(source, Path(std::string("/pods/second ") + type), Soon()).has_value());
    EXPECT_EQ(engine_->volumes().Delete(source, Soon()).error().code(), Code::kBusy);
    EXPECT_EQ(engine_->volumes().Expand(source, {Bytes{8 * kExtent.value}, {}}, {}, Soon()).error().code(),
              Code::kBusy);
    EXPECT_EQ(Snap("another", source).error().code(), Code::kBusy);

    steps_.LetGo();
    caller.join();
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_LE(made->snapshot.cut, cut);
    EXPECT_EQ(Restored(made->snapshot.id), "before");
    EXPECT_EQ(Read(source, 6, 0), "after!");
    EXPECT_TRUE(Eventually([&] { return IsAlone(source); })) << "the store is separated from it";
    EXPECT_TRUE(UntilLvs(3)) << "and erased";
    const auto all = engine_->volumes().List(0, "", Soon());
    for (const Volume& volume : all->volumes) {
      (void)engine_->volumes().Unpublish(volume.id, Path(std::string("/pods/") + type), Soon());
      EXPECT_TRUE(engine_->volumes().Delete(volume.id, Soon()).has_value());
    }
    EXPECT_TRUE(*engine_->snapshots().Delete(made->snapshot.id, Soon()));
    EXPECT_TRUE(UntilLvs(0));
  }
}

TEST_F(CopyInUseTest, AVolumeIsCopiedWhileItIsMounted) {
  const std::string source = Make({.name = "one", .extents = 40, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), {}}, Soon()).has_value());
  const auto copy =
      Create({.name = "two", .source = {source}, .access = AccessType::kMount, .parameters = kCow});
  ASSERT_TRUE(copy.has_value()) << copy.error().message();
  EXPECT_TRUE(engine_->volumes().Stage({copy->volume.id, Path("/stage/w"), {}}, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(2));
}

TEST_F(CopyInUseTest, AVolumeThatIsNotInUseNeedsNoStore) {
  lvm_.before.FailAlways("CreateCow", Error(Code::kInternal, "a store"));
  const std::string source = Make({.name = "one", .extents = 4});
  EXPECT_TRUE(Snap("snap", source).has_value());
}

TEST_F(CopyInUseTest, WithoutRoomForTheStoreNothingIsLeft) {
  const std::string source = Make({.name = "one", .extents = 120});
  ASSERT_TRUE(PublishAt(source, "/pods/one").has_value());
  const auto refused = Snap("snap", source);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_TRUE(refused.error().message().contains("temporary store")) << refused.error().message();
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_TRUE(IsAlone(source));
}

TEST_F(CopyInUseTest, AKernelWithoutSnapshotsIsTold) {
  dm_.SetTarget("snapshot", false);
  const std::string source = MakeUsed("one");
  EXPECT_EQ(Snap("snap", source).error().code(), Code::kPrecondition);
  EXPECT_EQ(LvCount(), 1U);
}

TEST_F(CopyInUseTest, AFailureLeavesNothing) {
  const std::string source = MakeUsed("one");
  lvm_.before.FailNth("CreateCow", 1, Error(Code::kUnavailable, "the file system is frozen"));
  EXPECT_EQ(Snap("snap", source).error().code(), Code::kUnavailable);
  EXPECT_TRUE(UntilLvs(1));
  lvm_.after.FailNth("CreateCow", 1, Error(Code::kTimeout, "killed"));
  EXPECT_FALSE(Snap("snap", source).has_value());
  EXPECT_TRUE(Eventually([&] { return IsAlone(source); }));
  EXPECT_TRUE(UntilLvs(1));
  // The first attempt to separate the store fails.
  lvm_.before.FailNth("SplitCow", 1, Error(Code::kUnavailable, "a disk is missing"));
  const auto made = Snap("snap", source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(Restored(made->snapshot.id), "before");
  EXPECT_TRUE(Eventually([&] { return IsAlone(source); }));
  EXPECT_TRUE(UntilLvs(3));
}

TEST_F(CopyInUseTest, WhatAKillLeavesIsEndedAtTheNextStart) {
  const std::string source = MakeUsed("one");
  engine_.reset();
  BindStore(lvm_, source);
  ASSERT_FALSE(IsAlone(source));
  {
    const lvm::Snapshot now = *lvm_.Read("vg0", Soon());
    const Catalog left = ReadCatalog("default", now);
    // Until the store is separated, nothing deletes or grows the volume.
    EXPECT_EQ(CheckAlone(*left.ById(source)).error().code(), Code::kUnavailable);
    const auto record = std::ranges::find(left.records, true, [](const Record& r) { return r.tags.cow; });
    ASSERT_NE(record, left.records.end());
    EXPECT_EQ(KeptVolume(*record), now->FindLv(lvm::ParseVolumeId(source)->lv_name));
  }
  Restart();
  EXPECT_TRUE(IsAlone(source)) << "before the pool serves";
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_EQ(Read(source, 6, 0), "before");
}

TEST_F(CopyInUseTest, AStoreGoesWithADiskThatIsGivenUp) {
  const std::string source = MakeUsed("one");
  const std::string name = lvm::ParseVolumeId(source)->lv_name;
  engine_.reset();
  const std::string store = BindStore(lvm_, source);
  const std::string disk = [&] {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    const auto pvs = lvm::LegPvs(*group, *group->FindLv(store));
    EXPECT_EQ(pvs.front().size(), 1U);
    EXPECT_NE(pvs.front(), lvm::LegPvs(*group, *group->FindLv(name)).front()) << "they share a disk";
    return pvs.front().front();
  }();
  lvm_.Happen("vg0", [&](lvm::VolumeGroup& now) {
    for (lvm::PhysicalVolume& pv : now.pvs) {
      pv.missing = pv.uuid == disk;
    }
  });
  const Catalog left = ReadCatalog("default", *lvm_.Read("vg0", Soon()));
  const auto record = std::ranges::find(left.records, true, [](const Record& r) { return r.tags.cow; });
  ASSERT_NE(record, left.records.end());
  const auto end = [&](const std::set<std::string>& given_up) {
    return PlanEndKeeping(*record, *KeptVolume(*record), given_up);
  };
  EXPECT_TRUE(Is<lvm::SplitCow>(end({}).front())) << "the disk may come back";
  EXPECT_TRUE(Is<lvm::DropCow>(end({disk}).front()));
  // The missing disk lets LVM split nothing off. Everything else goes on.
  Restart();
  EXPECT_FALSE(IsAlone(source));
  EXPECT_TRUE(PublishAt(source, "/pods/again").has_value());
  ASSERT_TRUE(lvm_.Apply(std::get<lvm::Change>(end({disk}).front()), Soon()).has_value());
  EXPECT_TRUE(IsAlone(source));
  EXPECT_EQ(LvCount(), 1U);
}

TEST_F(CopyInUseTest, LegsThatAreNotInSyncAreWaitedFor) {
  const std::string source = MakeUsed("one", {{"type", "raid1"}});
  const std::string uuid = DmUuidOf(source);
  dm_.SetRaid(uuid,
              dm::RaidStatus{.type = "raid1", .legs = "Aa", .in_sync = 1, .total = 2, .action = "recover"});
  EXPECT_EQ(Snap("snap", source).error().code(), Code::kUnavailable);
  EXPECT_TRUE(UntilLvs(1));
  dm_.SetRaid(uuid,
              dm::RaidStatus{.type = "raid1", .legs = "AA", .in_sync = 2, .total = 2, .action = "idle"});
  EXPECT_TRUE(Snap("snap", source).has_value());
}

TEST_F(CopyInUseTest, AVolumeThatIsPublishedReadOnlyStaysSo) {
  const std::string source = MakeUsed("one");
  ASSERT_TRUE(dm_.SetReadOnly(DmUuidOf(source), true).has_value());
  EXPECT_TRUE(Snap("snap", source).has_value());
  EXPECT_TRUE(Eventually([&] { return IsAlone(source); }));
  EXPECT_TRUE((*dm_.Find(DmUuidOf(source)))->read_only);
}

TEST_F(CopyInUseTest, ABtrfsInUseIsRefused) {
  const std::string source =
      Make({.name = "one", .extents = 40, .access = AccessType::kMount, .fs_type = "btrfs"});
  const Capability how{.fs_type = "btrfs"};
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), how}, Soon()).has_value());
  const auto refused = Snap("snap", source);
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_TRUE(refused.error().message().contains("btrfs")) << refused.error().message();
}

TEST_F(CopyInUseTest, AnAdministratorsSnapshotIsNotTouched) {
  const std::string source = MakeUsed("one");
  const std::string name = lvm::ParseVolumeId(source)->lv_name;
  ASSERT_TRUE(lvm_.Apply(lvm::CreateCow{.group = "vg0",
                                        .name = name,
                                        .store = "admins",
                                        .step = {Extents{2}, "normal", {"/dev/c:50-51"}},
                                        .tags = {"mine"}},
                         Soon())
                  .has_value());
  EXPECT_EQ(Snap("snap", source).error().code(), Code::kPrecondition);
  Restart();
  EXPECT_FALSE(IsAlone(source));
  EXPECT_EQ(LvCount(), 2U);
}

}  // namespace
}  // namespace quarry::engine
