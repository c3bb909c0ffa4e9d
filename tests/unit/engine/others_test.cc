// What administrators build on managed volumes, or do with them: Quarry sees it before it changes anything,
// names it with a remedy, and does not touch it.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/config.h"
#include "engine/repair/plan_evacuation.h"
#include "engine/repair/plan_repair.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"
#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OthersTest : public MendingTest {
 protected:
  static std::string NameOf(const std::string& id) { return lvm::ParseVolumeId(id)->lv_name; }
  static lvm::LogicalVolume& LvIn(lvm::VolumeGroup& group, const std::string& name) {
    return *std::ranges::find(group.lvs, name, &lvm::LogicalVolume::name);
  }
  // An unmanaged linear LV in free extents of a disk.
  static lvm::LogicalVolume Theirs(lvm::VolumeGroup& group, const std::string& name, const std::string& pv,
                                   uint64_t extents) {
    const lvm::ExtentRange free = group.FindPv(pv)->free.back();
    const lvm::ExtentRange range{free.end() - Extents{extents}, {extents}};
    lvm::LogicalVolume lv{.name = name, .uuid = "theirs-" + name};
    lv.segments = {{.type = "linear", .logical = {{0}, {extents}}, .areas = {{pv, "", range}}}};
    return lv;
  }
  void Snapshot(const std::string& id, const std::string& name) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      lvm::LogicalVolume snapshot = Theirs(group, name, group.pvs[3].uuid, 4);
      snapshot.origin = NameOf(id);
      snapshot.independent = false;
      LvIn(group, NameOf(id)).independent = false;
      group.lvs.push_back(std::move(snapshot));
    });
  }
  void RemoveSnapshot(const std::string& id, const std::string& name) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      std::erase_if(group.lvs, [&](const auto& lv) { return lv.name == name; });
      LvIn(group, NameOf(id)).independent = true;
    });
  }
  // An interrupted pvmove of the extents of an LV, named like those that Quarry begins.
  void BeginMove(const std::string& part, const std::string& from, const std::string& to,
                 const std::string& pvmove = "pvmove0") {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      lvm::Segment& segment = LvIn(group, part).segments.front();
      ASSERT_EQ(segment.areas.front().pv_uuid, from);
      const lvm::ExtentRange source = segment.areas.front().range;
      const lvm::ExtentRange target{group.FindPv(to)->free.back().end() - source.count, source.count};
      lvm::LogicalVolume move{.name = pvmove, .uuid = "move-" + pvmove, .hidden = true, .independent = false};
      move.leaves = group.FindPv(from)->device;
      move.segments = {{.type = "mirror",
                        .logical = {{0}, source.count},
                        .areas = {{from, "", source}, {to, "", target}}}};
      segment.areas = {{"", pvmove, {{0}, source.count}}};
      group.lvs.push_back(std::move(move));
    });
  }
  void ExpectRefused(const Status& refused, Code code, const std::string& words) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), code) << refused.error().message();
    EXPECT_THAT(refused.error().message(), HasSubstr(words));
  }
  template <typename T>
  static Status StatusOf(const Result<T>& result) {
    return result.has_value() ? Ok() : Status(result.error());
  }
  // A commit of another process that changes no managed volume.
  void Commit() {
    lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});
  }
  void OnceBefore(const std::string& wanted, const std::function<void()>& act) {
    lvm_.SetOnCall([this, wanted, act](const std::string& call) {
      if (call == wanted) {
        lvm_.SetOnCall(nullptr);
        act();
      }
    });
  }
  Status Delete(const std::string& id) { return StatusOf(engine_->volumes().Delete(id, Soon())); }
  Status Expand(const std::string& id, uint64_t mib) {
    return StatusOf(engine_->volumes().Expand(id, {Bytes{mib * kMiB.value}, {}}, std::nullopt, Soon()));
  }
  // The calls that changed something since the last question.
  std::vector<std::string> Changes() {
    std::vector<std::string> out;
    const std::lock_guard lock(calls_mutex_);
    std::ranges::copy_if(calls_, std::back_inserter(out),
                         [](const std::string& call) { return call != "Read"; });
    calls_.clear();
    return out;
  }
  void Listen() {
    (void)Changes();
    lvm_.SetOnCall([this](const std::string& call) {
      const std::lock_guard lock(calls_mutex_);
      calls_.push_back(call);
    });
  }
  bool HasLv(const std::string& name) { return Group()->FindLv(name) != nullptr; }

  std::mutex calls_mutex_;
  std::vector<std::string> calls_;  // guarded by calls_mutex_
};

TEST_F(OthersTest, AVolumeWithASnapshotIsNotDeletedOrChanged) {
  for (const std::string type : {"linear", "raid1"}) {
    SCOPED_TRACE(type);
    const std::string id = Create("v-" + type, type, 40);
    const uint64_t before = Group()->seqno + 1;
    Snapshot(id, "backup");
    Listen();
    ExpectRefused(Delete(id), Code::kPrecondition, "vg0/backup is a snapshot of it: remove that first");
    ExpectRefused(Delete(id), Code::kPrecondition, id);
    ExpectRefused(Expand(id, 80), Code::kPrecondition, "vg0/backup is a snapshot of it");
    EXPECT_THAT(Changes(), IsEmpty());
    EXPECT_EQ(Group()->seqno, before);
    EXPECT_TRUE(Expand(id, 40).has_value()) << "it has that size";
    RemoveSnapshot(id, "backup");
    EXPECT_TRUE(Expand(id, 80).has_value());
    const Status deleted = Delete(id);
    EXPECT_TRUE(deleted.has_value()) << deleted.error().message();
    EXPECT_TRUE(Eventually([&] { return !HasLv(NameOf(id)); })) << "the eraser is not to come in between";
  }
}

TEST_F(OthersTest, ErasePolicyNoneKeepsASnapshottedVolume) {
  const auto made = engine_->volumes().Create(
      {.name = "v", .range = {kMiB, {}}, .capabilities = {{}}, .parameters = {{"erase", "none"}}}, Soon());
  ASSERT_TRUE(made.has_value());
  Snapshot(made->volume.id, "backup");
  ExpectRefused(Delete(made->volume.id), Code::kPrecondition, "vg0/backup is a snapshot of it");
  EXPECT_TRUE(HasLv("backup"));
  EXPECT_TRUE(HasLv(NameOf(made->volume.id)));
}

// The snapshot appears after the read that the call planned on. The read before lvremove sees it.
TEST_F(OthersTest, RemovingAVolumeRemovesNothingElse) {
  const std::string id = Create("v", "linear", 40);
  Snapshot(id, "backup");
  const Plan plan = {RemoveLvAction{"vg0", {NameOf(id)}}};
  ExpectRefused(Execute(plan, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, Soon()),
                Code::kPrecondition, "vg0/backup is a snapshot of it");
  EXPECT_TRUE(HasLv("backup"));
  EXPECT_TRUE(HasLv(NameOf(id)));
}

TEST_F(OthersTest, AVolumeThatMustStayDoesNotBlockOtherRemovals) {
  const std::string kept = Create("kept", "linear", 40);
  const std::string gone = Create("gone", "linear", 40);
  Snapshot(kept, "backup");
  const Plan plan = {RemoveLvAction{"vg0", {NameOf(kept), NameOf(gone)}}};
  ExpectRefused(Execute(plan, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, Soon()),
                Code::kPrecondition, "vg0/backup is a snapshot of it");
  EXPECT_TRUE(HasLv(NameOf(kept)));
  EXPECT_TRUE(HasLv("backup"));
  EXPECT_FALSE(HasLv(NameOf(gone)));
}

// Another process commits between the read and LVM's lock.
TEST_F(OthersTest, ASnapshotMadeBetweenReadAndLockStays) {
  const std::string id = Create("v", "linear", 40);
  OnceBefore("Remove", [&] { Snapshot(id, "backup"); });
  const Plan plan = {RemoveLvAction{"vg0", {NameOf(id)}}};
  ExpectRefused(Execute(plan, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, Soon()),
                Code::kPrecondition, "vg0/backup is a snapshot of it");
  EXPECT_TRUE(HasLv("backup"));
  EXPECT_TRUE(HasLv(NameOf(id)));
}

TEST_F(OthersTest, AnUnrelatedCommitDoesNotBlockARemoval) {
  const std::string id = Create("v", "linear", 40);
  OnceBefore("Remove", [&] { Commit(); });
  const Plan plan = {RemoveLvAction{"vg0", {NameOf(id)}}};
  EXPECT_TRUE(Execute(plan, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, Soon()).has_value());
  EXPECT_FALSE(HasLv(NameOf(id)));
}

TEST_F(OthersTest, ARemovalProvenOnAnOlderStateIsRefused) {
  const std::string id = Create("v", "linear", 40);
  const Plan plan = {RemoveLvAction{"vg0", {NameOf(id)}, Group()->seqno}};
  Commit();
  ExpectRefused(Execute(plan, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, Soon()),
                Code::kUnavailable, "another process has changed volume group vg0");
  EXPECT_TRUE(HasLv(NameOf(id)));
}

TEST_F(OthersTest, AVolumeRenamedBeforeItsRemovalIsNotReportedRemoved) {
  const std::string id = Create("v", "linear", 40);
  OnceBefore("Remove", [&] {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) { LvIn(group, NameOf(id)).name = "renamed"; });
  });
  const Plan plan = {RemoveLvAction{"vg0", {NameOf(id)}}};
  ExpectRefused(Execute(plan, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, Soon()),
                Code::kUnavailable, "another process has changed volume group vg0");
  EXPECT_TRUE(HasLv("renamed"));
}

// The LV that holds extents while they are zeroed is removed, even if other processes commit meanwhile.
TEST_F(OthersTest, ZeroedSpaceIsReleasedWhileOthersCommit) {
  std::atomic<int> commits = 0;
  lvm_.SetOnCall([&](const std::string& call) {
    if (call == "Remove" && ++commits <= 3) {
      Commit();
    }
  });
  const auto made = engine_->volumes().Create(
      {.name = "raw", .range = {kMiB, {}}, .capabilities = {{.access = AccessType::kBlock}}}, Soon());
  lvm_.SetOnCall(nullptr);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_GE(commits, 4) << "space of unknown past was zeroed for it";
  EXPECT_EQ(Group()->lvs.size(), 1U);
  EXPECT_TRUE(HasLv(NameOf(made->volume.id)));
}

// "Not found" would be wrong. A second volume of this name would confuse a build that can read both.
TEST_F(OthersTest, AVolumeOfANewerFormatIsNamedAndKept) {
  const std::string id = Create("v", "linear", 40);
  const auto set_version = [&](const std::string& from, const std::string& to) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      std::ranges::replace(LvIn(group, NameOf(id)).tags, "quarry.v=" + from, "quarry.v=" + to);
    });
  };
  set_version("1", "9");
  ExpectRefused(Delete(id), Code::kPrecondition, "vg0/" + NameOf(id) + ", whose tags this build cannot read");
  ExpectRefused(Expand(id, 80), Code::kPrecondition, "whose tags this build cannot read");
  const auto again =
      engine_->volumes().Create({.name = "v", .range = {kMiB, {}}, .capabilities = {{}}}, Soon());
  ExpectRefused(StatusOf(again), Code::kAlreadyExists, "whose tags this build cannot read");
  EXPECT_EQ(Group()->lvs.size(), 1U);
  set_version("9", "1");
  const Status deleted = Delete(id);
  EXPECT_TRUE(deleted.has_value()) << deleted.error().message();
}

TEST_F(OthersTest, AnUnreadableVolumeOfAnotherPoolKeepsItsName) {
  lvm_.AddGroup("vg1", Bytes{4 * kMiB.value}, {{"/dev/y", Extents{100}}});
  engine_.reset();
  EngineConfig config;
  config.pools = {{.name = "default", .group = "vg0"}, {.name = "other", .group = "vg1"}};
  engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
  ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  const auto create = [&](const std::string& pool) {
    return engine_->volumes().Create(
        {.name = "v", .range = {kMiB, {}}, .capabilities = {{}}, .parameters = {{"pool", pool}}}, Soon());
  };
  ASSERT_TRUE(create("other").has_value());
  lvm_.Edit("vg1", [&](lvm::VolumeGroup& group) {
    std::ranges::replace(group.lvs.front().tags, std::string("quarry.v=1"), std::string("quarry.v=9"));
  });
  ExpectRefused(StatusOf(create("default")), Code::kAlreadyExists, "whose tags this build cannot read");
  EXPECT_EQ(Group()->lvs.size(), 0U);
}

TEST_F(OthersTest, ADeletedVolumeWithASnapshotIsNotErased) {
  const std::string other = Create("v", "linear", 40);
  engine_.reset();  // quarryd ended after the deletion and before the erasure
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    for (std::string& tag : LvIn(group, NameOf(other)).tags) {
      tag = tag == "quarry.ready" ? "quarry.erasing" : tag;
    }
  });
  Snapshot(other, "backup");
  Begin({});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(HasLv("backup"));
  EXPECT_TRUE(HasLv(NameOf(other)));
  EXPECT_TRUE(erase_.Pieces().empty()) << "nor is what the snapshot shares erased";
  RemoveSnapshot(other, "backup");
  Begin({});
  EXPECT_TRUE(Eventually([&] { return !HasLv(NameOf(other)); }));
}

// A pvmove of the leg leaves such a device.
TEST_F(OthersTest, ALegActiveWithoutItsVolumeDoesNotBlockErasure) {
  const std::string id = Create("v", "raid1", 40);
  const lvm::Snapshot group = Group();
  const std::string uuid = lvm::DmUuid(group->uuid, group->FindLv(NameOf(id) + "_rimage_0")->uuid);
  const int before = erase_.faults.Calls("Erase");
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "not yet"));
  ASSERT_TRUE(Delete(id).has_value());
  ASSERT_TRUE(Eventually([&] { return erase_.faults.Calls("Erase") > before; }));
  dm_.AddDevice(uuid, lvm::DmName("vg0", NameOf(id) + "_rimage_0"), kMiB);
  erase_.faults.Clear();
  EXPECT_TRUE(Eventually([&] { return !HasLv(NameOf(id)); }));
  EXPECT_FALSE((*dm_.Find(uuid)).has_value());
}

TEST_F(OthersTest, AVolumeMadeACacheOrPoolIsNamed) {
  const std::string id = Create("v", "linear", 40);
  const std::string name = NameOf(id);
  const lvm::VolumeGroup before = *Group();
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    lvm::LogicalVolume origin = LvIn(group, name);
    origin.name += "_corig";
    origin.uuid = "corig";
    origin.hidden = true;
    origin.tags.clear();
    group.lvs.push_back(origin);
    lvm::LogicalVolume& top = LvIn(group, name);
    top.origin = origin.name;
    top.pool = "fast_cpool";
    top.segments = {{.type = "cache", .logical = {{0}, {10}}, .areas = {{"", origin.name, {{0}, {10}}}}}};
  });
  ExpectRefused(Delete(id), Code::kPrecondition, "lvconvert --splitcache vg0/" + name);
  ExpectRefused(Expand(id, 80), Code::kPrecondition, "cached by vg0/fast_cpool");
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    lvm::LogicalVolume& top = LvIn(group, name);
    LvIn(group, name + "_corig").tags = std::exchange(top.tags, {});  // as lvconvert does
    top.origin.clear();
    top.pool.clear();
    top.independent = false;
    top.segments.front().type = "thin-pool";
    lvm::LogicalVolume thin{.name = "his", .uuid = "his"};
    thin.pool = name;
    thin.segments = {{.type = "thin", .logical = {{0}, {10}}}};
    group.lvs.push_back(std::move(thin));
  });
  ExpectRefused(Delete(id), Code::kPrecondition, "vg0/his");
  ExpectRefused(Expand(id, 80), Code::kPrecondition, "vg0/his");
  EXPECT_TRUE(HasLv("his"));
}

TEST_F(OthersTest, AVolumeMadePartOfAnotherIsNotReportedGone) {
  const std::string id = Create("v", "linear", 40);
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    lvm::LogicalVolume& lv = LvIn(group, NameOf(id));
    lv.name += "_cvol";
    lv.hidden = true;
    lv.independent = false;
  });
  ExpectRefused(Delete(id), Code::kPrecondition, "vg0/" + NameOf(id) + "_cvol");
  ExpectRefused(Expand(id, 80), Code::kPrecondition, "vg0/" + NameOf(id) + "_cvol");
  EXPECT_TRUE(Delete("default.qaaaaaaaaaaaaaaaaaaaaaaaaaa").has_value());
}

TEST_F(OthersTest, AVolumeBeingMovedIsUnavailableUntilTheMoveEnds) {
  for (const std::string type : {"linear", "raid1"}) {
    SCOPED_TRACE(type);
    const std::string id = Create("v-" + type, type, 40);
    const std::string part = type == "linear" ? NameOf(id) : NameOf(id) + "_rimage_0";
    const std::string from = Legs(id).front();
    BeginMove(part, from, Group()->pvs[3].uuid);
    Listen();
    ExpectRefused(Delete(id), Code::kUnavailable, "is being moved off disk ");
    ExpectRefused(Expand(id, 80), Code::kUnavailable, "is being moved off disk ");
    EXPECT_THAT(Changes(), IsEmpty());
    ASSERT_TRUE(lvm_.Apply(lvm::AbortMove{"vg0", Group()->FindPv(from)->device}, Soon()).has_value());
    EXPECT_TRUE(Expand(id, 80).has_value());
    EXPECT_TRUE(Delete(id).has_value());
    EXPECT_TRUE(Eventually([&] { return !HasLv(NameOf(id)); })) << "the eraser is not to come in between";
  }
}

TEST_F(OthersTest, AVolumeWithASnapshotIsNotRepairedAndSaysWhy) {
  const std::string id = Create("v", "raid1", 40);
  SetMissing(Legs(id).front());
  Snapshot(id, "backup");
  Listen();
  const RepairReport report = Mend(RepairCause::kAsked);
  EXPECT_THAT(report.obstacles, Contains(AllOf(HasSubstr(id), HasSubstr("vg0/backup is a snapshot of it"))));
  EXPECT_THAT(Changes(), Not(Contains("Repair")));
  EXPECT_THAT(report.done, IsEmpty());
}

TEST_F(OthersTest, ADiskWithASnapshottedVolumeIsNotEvacuated) {
  const std::string id = Create("v", "linear", 40);
  const std::string pv = Legs(id).front();
  Snapshot(id, "backup");
  Listen();
  ExpectRefused(StatusOf(engine_->disks().Evacuate({.disk = pv}, Soon())), Code::kPrecondition,
                "vg0/backup is a snapshot of it");
  EXPECT_THAT(Changes(), IsEmpty());
  RemoveSnapshot(id, "backup");
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = pv}, Soon()).has_value());
  Snapshot(id, "backup");
  (void)Changes();
  EXPECT_THAT(MendSomething().obstacles, Contains(HasSubstr("vg0/backup is a snapshot of it")));
  EXPECT_THAT(Changes(), IsEmpty());
}

TEST_F(OthersTest, OnlyQuarrysOwnMoveIsContinued) {
  const std::string id = Create("v", "linear", 40);
  const std::string pv = Legs(id).front();
  const lvm::Snapshot group = Group();
  const std::string to = group->pvs[3].uuid;
  const std::string elsewhere = group->pvs[1].uuid == pv ? group->pvs[2].uuid : group->pvs[1].uuid;
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& g) { g.lvs.push_back(Theirs(g, "his", elsewhere, 5)); });
  BeginMove("his", elsewhere, to, "pvmove1");
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = pv}, Soon()).has_value());
  BeginMove(NameOf(id), pv, to);
  const RepairReport report = MendSomething();
  ASSERT_FALSE(report.done.empty()) << (report.obstacles.empty() ? "" : report.obstacles.front());
  EXPECT_FALSE(HasLv("pvmove0"));
  EXPECT_TRUE(HasLv("pvmove1")) << "it is another process's move";
  EXPECT_EQ(Legs(id).front(), to);
}

TEST_F(OthersTest, CancellingAbortsOnlyQuarrysOwnMove) {
  const std::string id = Create("v", "linear", 40);
  const std::string pv = Legs(id).front();
  const lvm::Snapshot group = Group();
  const std::string to = group->pvs[3].uuid;
  const std::string elsewhere = group->pvs[1].uuid == pv ? group->pvs[2].uuid : group->pvs[1].uuid;
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& g) { g.lvs.push_back(Theirs(g, "his", elsewhere, 5)); });
  BeginMove("his", elsewhere, to, "pvmove1");
  Begin([](EngineConfig& config) { config.repair = false; });
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& g) {
    for (lvm::PhysicalVolume& one : g.pvs) {
      if (one.uuid == pv) {
        one.tags = {std::string(lvm::kLeavingTag)};
      }
    }
  });
  BeginMove(NameOf(id), pv, to);
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = pv, .cancel = true}, Soon()).has_value());
  EXPECT_FALSE(HasLv("pvmove0"));
  EXPECT_TRUE(HasLv("pvmove1"));
  EXPECT_EQ(Legs(id).front(), pv);
}

TEST_F(OthersTest, AMoveBegunByAnotherProcessIsNotAborted) {
  const std::string id = Create("v", "linear", 40);
  const std::string pv = Legs(id).front();
  const std::string to = Group()->pvs[3].uuid;
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = pv}, Soon()).has_value());
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& g) { g.lvs.push_back(Theirs(g, "his", pv, 5)); });
  BeginMove("his", pv, to);
  Listen();
  EXPECT_THAT(MendSomething().obstacles,
              Contains(AllOf(HasSubstr("another process is moving"), HasSubstr("his"))));
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = pv, .cancel = true}, Soon()).has_value());
  EXPECT_TRUE(HasLv("pvmove0"));
  EXPECT_THAT(Changes(), Not(Contains("AbandonMove")));
}

// F13: the limits of the group bound capacity, and steps that LVM would refuse are not tried.
TEST_F(OthersTest, AGroupAtItsVolumeLimitHasNoCapacity) {
  const std::string id = Create("v", "linear", 40);
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.max_lvs = 1; });
  Listen();
  const auto capacity = engine_->volumes().Capacity({{}}, {}, Soon());
  ASSERT_TRUE(capacity.has_value());
  EXPECT_EQ(capacity->available, Bytes{});
  ExpectRefused(StatusOf(engine_->volumes().Create(
                    {.name = "w", .range = {kMiB, {}}, .capabilities = {{}}, .parameters = {}}, Soon())),
                Code::kNoSpace, "vgchange --maxlogicalvolumes 0 vg0");
  EXPECT_THAT(Changes(), IsEmpty());
  EXPECT_TRUE(Expand(id, 80).has_value()) << "takes no volume more";
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.max_lvs = 2; });
  EXPECT_GT(engine_->volumes().Capacity({{}}, {}, Soon())->available, Bytes{});
  EXPECT_FALSE(Create("x", "raid1", 40).empty()) << "legs do not count";
}

TEST_F(OthersTest, AGroupThatIsNotResizeableKeepsItsDisks) {
  const std::string id = Create("v", "linear", 40);
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.extendable = false; });
  ExpectRefused(StatusOf(engine_->disks().Evacuate({.disk = Legs(id).front()}, Soon())), Code::kPrecondition,
                "vgchange --resizeable y vg0");
}

// The growth was interrupted between LVM's commit and the check of its result.
TEST_F(OthersTest, ARepeatedGrowthChecksAnInterruptedOne) {
  const std::string good = Create("good", "raid1", 40);
  const std::string bad = Create("bad", "raid1", 40);
  for (const std::string& id : {good, bad}) {
    lvm_.after.FailNth("Extend", 1, Error(Code::kTimeout, "killed"));
    EXPECT_FALSE(Expand(id, 80).has_value());
    const lvm::Snapshot group = Group();
    ASSERT_EQ(Lv(group, id)->size, Bytes{80 * kMiB.value});
  }
  EXPECT_TRUE(Expand(good, 80).has_value());
  const std::vector<std::string> pvs = Legs(bad);
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    lvm::Segment& tail = LvIn(group, NameOf(bad) + "_rimage_1").segments.back();
    ASSERT_EQ(tail.areas.front().pv_uuid, pvs[1]);
    const Extents count = tail.areas.front().range.count;
    const lvm::ExtentRange free = group.FindPv(pvs[0])->free.back();
    tail.areas.front() = {pvs[0], "", {free.end() - count, count}};
  });
  ExpectRefused(Expand(bad, 80), Code::kPrecondition, "a growth that was cut off");
}

// What an interrupted conversion leaves: two visible LVs. The leg has no tag, its metadata has the marker.
class TakenOutTest : public OthersTest {
 protected:
  std::string Leave(const std::string& id, const std::string& tag = "quarry.creating",
                    uint64_t extents = 10) {
    const std::string leg = NameOf(id) + "_rimage_1_extracted";
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      group.lvs.push_back(Theirs(group, leg, group.pvs[3].uuid, extents));
    });
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      lvm::LogicalVolume metadata = Theirs(group, lvm::MetadataLvName(leg), group.pvs[3].uuid, 1);
      if (!tag.empty()) {
        metadata.tags = {tag};
      }
      group.lvs.push_back(std::move(metadata));
    });
    return leg;
  }
};

TEST_F(TakenOutTest, ALegIsKeptAndReportedWhileItMayBeTheLastGoodCopy) {
  const std::string id = Create("v", "raid1", 40);
  const std::string leg = Leave(id);
  for (const auto& [letters, action] :
       std::initializer_list<std::pair<const char*, const char*>>{{"Aa", "recover"}, {"AA", "check"}}) {
    SetLegs(id, letters, action);
    Pass(std::chrono::hours(1));
    const RepairReport report = Mend();
    EXPECT_TRUE(HasLv(leg)) << letters;
    EXPECT_THAT(report.obstacles, Contains(AllOf(HasSubstr(id), HasSubstr(leg), HasSubstr("kept"))))
        << letters;
  }
  EXPECT_TRUE(erase_.Pieces().empty());
}

TEST_F(TakenOutTest, ALegIsDispensableOnlyIfAllOthersAreInSync) {
  const std::string id = Create("v", "raid1", 40);
  const auto is = [&](const std::optional<dm::RaidStatus>& raid) {
    const Catalog catalog = ReadCatalog("default", Group());
    return IsDispensable(*catalog.ById(id), raid);
  };
  const dm::RaidStatus good{.type = "raid1", .legs = "AA", .in_sync = 100, .total = 100, .action = "idle"};
  EXPECT_TRUE(is(good));
  EXPECT_FALSE(is(std::nullopt)) << "not active";
  for (const char* legs : {"AD", "A-", "Aa", "A", "AAA"}) {
    dm::RaidStatus bad = good;
    bad.legs = legs;
    EXPECT_FALSE(is(bad)) << legs;
  }
  dm::RaidStatus syncing = good;
  syncing.in_sync = 99;
  EXPECT_FALSE(is(syncing));
  SetMissing(Legs(id).front());
  EXPECT_FALSE(is(good)) << "its disk is not there";
}

TEST_F(TakenOutTest, ALegIsErasedAndRemovedOnceAllOthersAreInSync) {
  const std::string id = Create("v", "raid1", 40);
  const std::string leg = Leave(id);
  const lvm::PhysicalRange there = lvm::PhysicalExtents(*Group(), *Group()->FindLv(leg)).front();
  const Bytes start =
      Group()->FindPv(there.pv_uuid)->pe_start + ToBytes(there.range.first, Group()->extent_size);
  SetLegs(id, "AA");
  EXPECT_THAT(Mend().obstacles, IsEmpty());
  EXPECT_TRUE(Eventually([&] { return !HasLv(leg) && !HasLv(lvm::MetadataLvName(leg)); }));
  const auto erased = erase_.Pieces();
  EXPECT_TRUE(std::ranges::any_of(
      erased, [&](const auto& range) { return range.pv_uuid == there.pv_uuid && range.offset == start; }));
  EXPECT_TRUE(HasLv(NameOf(id)));
  EXPECT_TRUE(engine_->volumes().Get(id, Soon(), Show::kHealth).has_value());
}

TEST_F(TakenOutTest, ALegIsErasedWithItsDeletedVolume) {
  const std::string id = Create("v", "raid1", 40);
  const std::string leg = Leave(id);
  SetLegs(id, "Aa", "recover");
  ASSERT_TRUE(Delete(id).has_value());
  EXPECT_TRUE(Eventually([&] { return Group()->lvs.empty(); }));
  EXPECT_TRUE(std::ranges::any_of(erase_.Pieces(),
                                  [&](const auto& range) { return range.length >= Bytes{40 * kMiB.value}; }));
}

TEST_F(TakenOutTest, ALegWithoutProofIsNotTouched) {
  const std::string id = Create("v", "raid1", 40);
  SetLegs(id, "AA");
  std::string leg = Leave(id, "");
  EXPECT_THAT(Mend().obstacles, Contains(AllOf(HasSubstr(leg), HasSubstr("cannot be proven"))));
  EXPECT_TRUE(HasLv(leg)) << "its metadata bears no tag";
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    std::erase_if(group.lvs, [](const auto& lv) { return lv.name.ends_with("_extracted"); });
  });
  leg = Leave(id, "quarry.creating", 7);
  EXPECT_THAT(Mend().obstacles, Contains(AllOf(HasSubstr(leg), HasSubstr("cannot be proven"))));
  EXPECT_TRUE(HasLv(leg)) << "it has another size";
  ASSERT_TRUE(Delete(id).has_value());
  EXPECT_TRUE(Eventually([&] { return !HasLv(NameOf(id)); }));
  EXPECT_TRUE(HasLv(leg));
}

TEST_F(TakenOutTest, ALegDoesNotBlockAnEvacuationForGood) {
  const std::string id = Create("v", "raid1", 40);
  const std::string leg = Leave(id);
  const std::string pv = lvm::PhysicalExtents(*Group(), *Group()->FindLv(leg)).front().pv_uuid;
  const OnDisk there = WhatLiesOn(ReadCatalog("default", Group()), *Group()->FindPv(pv));
  EXPECT_THAT(there.strangers, IsEmpty());
  EXPECT_THAT(there.taken_out, Contains(leg));
}

}  // namespace
}  // namespace quarry::engine
