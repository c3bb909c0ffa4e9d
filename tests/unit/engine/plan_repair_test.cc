// Lost disks and legs: which repairs are done, when, and what is not touched.
#include <algorithm>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/bound_store.h"
#include "tests/unit/engine/eventually.h"
#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;

TEST_F(MendingTest, AHealthyPoolNeedsNoStep) {
  Create("mirror", "raid1");
  Create("linear", "linear");
  const uint64_t before = Group()->seqno;
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, IsEmpty());
  EXPECT_EQ(report.next, std::nullopt);
  EXPECT_EQ(Group()->seqno, before);
}

// Calls `at` before a file system is made, when the call holds the volume's lock.
class AtFormat final : public StepWatcher {
 public:
  explicit AtFormat(std::function<void()> at) : at_(std::move(at)) {}
  void Before(const std::string& step) override {
    if (step.starts_with("make file system")) {
      at_();
    }
  }
  void After(const std::string& /*step*/) override {}

 private:
  const std::function<void()> at_;
};

TEST_F(MendingTest, ARepairStepWaitsForACallThatUsesTheInlineVolume) {
  RepairReport report;
  AtFormat steps([&] {
    const lvm::Snapshot group = Group();
    dm_.SetRaid(
        lvm::DmUuid(group->uuid,
                    std::ranges::find(group->lvs, "raid1", &lvm::LogicalVolume::segment_type)->uuid),
        dm::RaidStatus{.type = "raid1", .legs = "AD", .in_sync = 100, .total = 100, .action = "idle"});
    report = Mend();
  });
  steps_ = &steps;
  mount_.AddDirectory("/pods");
  Begin([](EngineConfig& config) { config.ephemeral_max_size = kGiB; });
  const Status published =
      engine_->volumes().PublishEphemeral({.publish = {.id = "csi-0123",
                                                       .staging_path = std::nullopt,
                                                       .target_path = *AbsolutePath::Parse("/pods/inline"),
                                                       .capability = {.access = AccessType::kMount}},
                                           .size = Bytes{300 * kMiB.value},
                                           .parameters = {{"type", "raid1"}}},
                                          Soon());
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("NodePublishVolume of csi-0123 has been in flight")));
}

TEST_F(MendingTest, ALostLegIsRebuiltOnASeparateDiskAfterTheDelay) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  SetMissing(before[1]);
  const RepairReport early = Mend();
  EXPECT_THAT(early.done, IsEmpty()) << "it may come back";
  ASSERT_TRUE(early.next.has_value());
  EXPECT_LE(*early.next, std::chrono::seconds(60));
  EXPECT_EQ(ConditionOf(id), "degraded");

  Pass(std::chrono::seconds(60));
  const RepairReport due = Mend(RepairCause::kEvent);
  EXPECT_THAT(due.done, ElementsAre(HasSubstr("rebuild legs"), HasSubstr("verify"),
                                    HasSubstr("take lost disks out of group vg0")));
  const std::vector<std::string> after = Legs(id);
  EXPECT_EQ(after[0], before[0]) << "the leg that is there stays where it is";
  EXPECT_NE(after[1], before[1]);
  EXPECT_NE(after[1], after[0]);
  EXPECT_EQ(Group()->pvs.size(), 3U);
  EXPECT_EQ(ConditionOf(id), "healthy");
  EXPECT_FALSE(Create("again", "linear", 40).empty()) << "the group takes new volumes again";
  EXPECT_THAT(Mend().done, IsEmpty());
}

TEST_F(MendingTest, AStoreOfACopyDoesNotKeepALegFromBeingRebuilt) {
  const std::string id = Create("mirror", "raid1", 40);
  const std::string store = BindStore(lvm_, id);
  SetMissing(Legs(id)[1]);
  Mend();
  Pass(std::chrono::seconds(60));
  // While the disk is missing, LVM does not separate the store.
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("rebuild legs"), HasSubstr("verify"),
                                                          HasSubstr("take lost disks out of group vg0")));
  EXPECT_EQ(Group()->MissingPvs(), 0U);
  EXPECT_TRUE(Eventually([&] {
    const lvm::Snapshot group = Group();
    return group->FindLv(store) == nullptr || group->FindLv(store)->origin.empty();
  })) << "now LVM separates it";
}

TEST_F(MendingTest, AVolumeIsNotGivenUpBecauseTheStoreOfItsCopyIsLost) {
  const std::string id = Create("line", "linear", 40);
  lvm_.before.FailAlways("SplitCow", Error(Code::kIo, "not before the disk is lost"));
  const std::string store = BindStore(lvm_, id);
  SetMissing(lvm::LegPvs(*Group(), *Group()->FindLv(store)).front().front());
  lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {  // as LVM reports it
    std::ranges::find(group.lvs, lvm::ParseVolumeId(id)->lv_name, &lvm::LogicalVolume::name)->partial = true;
  });
  Mend();
  Pass(std::chrono::seconds(60));
  for (const std::string& obstacle : Mend(RepairCause::kEvent).obstacles) {
    EXPECT_THAT(obstacle, Not(HasSubstr("delete the volume")));
  }
}

TEST_F(MendingTest, AVolumeThatCannotBeRebuiltDoesNotHoldUpTheOthers) {
  std::vector<std::string> ids = {Create("one", "raid5", 80), Create("two", "raid5", 80)};
  std::ranges::sort(ids);  // the order in which they are rebuilt
  const auto has_leg_on = [&](const std::string& id, const std::string& pv) {
    const std::vector<std::string> legs = Legs(id);
    return std::ranges::find(legs, pv) != legs.end();
  };
  const std::vector<std::string> legs = Legs(ids[0]);
  const std::string lost =
      *std::ranges::find_if(legs, [&](const std::string& pv) { return has_leg_on(ids[1], pv); });
  SetMissing(lost);
  Mend();
  Pass(std::chrono::seconds(61));
  lvm_.before.FailNth("Repair", 1, Error(Code::kInternal, "no"));
  const RepairReport failed = Mend(RepairCause::kEvent);
  EXPECT_THAT(failed.obstacles, ElementsAre(HasSubstr("no")));
  EXPECT_THAT(failed.next, Optional(std::chrono::milliseconds(1)));
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("rebuild legs"), HasSubstr("verify")));
  EXPECT_TRUE(has_leg_on(ids[0], lost));
  EXPECT_FALSE(has_leg_on(ids[1], lost));
  // It is tried again, later.
  EXPECT_THAT(Mend(RepairCause::kEvent).done, IsEmpty());
  Pass(std::chrono::seconds(600));
  EXPECT_THAT(Mend(RepairCause::kEvent).done, Contains(HasSubstr("out of group")));
  EXPECT_FALSE(has_leg_on(ids[0], lost));
}

TEST_F(MendingTest, ADiskThatReturnsWithinTheDelayIsOnlyRefreshed) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  SetMissing(before[0]);
  SetLegs(id, "DA");
  Mend();
  Pass(std::chrono::seconds(59));
  SetMissing(before[0], false);
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("refresh")));
  EXPECT_EQ(Legs(id), before);
  EXPECT_EQ(ConditionOf(id), "healthy");
  Pass(std::chrono::seconds(3600));
  SetMissing(before[0]);
  EXPECT_THAT(Mend().done, IsEmpty()) << "the delay starts again";
}

TEST_F(MendingTest, ADiskThatMissedACommitIsTakenBackBeforeTheRefresh) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  SetMissing(before[0]);
  SetLegs(id, "DA");
  Mend();
  lvm_.ReturnDisk("vg0", before[0]);
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("back into group vg0"), HasSubstr("refresh")));
  EXPECT_EQ(Legs(id), before);
  EXPECT_EQ(ConditionOf(id), "healthy");
}

TEST_F(MendingTest, VolumesOnAPulledDiskAreRefreshedWhenItReturns) {
  const std::string id = Create("linear", "linear");
  dm_.SetOnLostDisk(DmUuidOf(id), true);
  EXPECT_THAT(Mend(RepairCause::kEvent).done, IsEmpty()) << "looked for only when disks may have changed";
  lvm_.before.FailNth("Refresh", 1, Error(Code::kTimeout, "not now"));
  Mend(RepairCause::kDisks);
  EXPECT_EQ(ConditionOf(id), "failed") << "its disk is present, but the kernel has not opened it again";
  Pass(std::chrono::minutes(1));
  EXPECT_THAT(Mend(RepairCause::kDisks).done, ElementsAre(HasSubstr("refresh")));
  EXPECT_EQ(ConditionOf(id), "healthy");
  EXPECT_THAT(Mend(RepairCause::kDisks).done, IsEmpty());
}

TEST_F(MendingTest, ADiskThatIsPulledRepeatedlyIsTakenBackEachTime) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  for (int i = 0; i < 6; ++i) {
    // The disk is back so soon that LVM has never missed it.
    SetLegs(id, "AD");
    dm_.SetOnLostDisk(DmUuidOf(id), true);
    EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("refresh"))) << i;
    Mend();
    Pass(std::chrono::seconds(5));
  }
  EXPECT_EQ(Legs(id), before);
}

TEST_F(MendingTest, ALegThatFailsAfterEachReturnIsReplacedOnAnotherDisk) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  for (int i = 0; i < 3; ++i) {
    SetLegs(id, "AD");
    EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("refresh"))) << i;
    SetLegs(id, "AD");
    const RepairReport report = Mend(RepairCause::kEvent);
    EXPECT_THAT(report.done, IsEmpty());
    ASSERT_TRUE(report.next.has_value());
    clock_.now += *report.next;
  }
  EXPECT_THAT(Mend(RepairCause::kEvent).done,
              ElementsAre(HasSubstr("rebuild legs"), HasSubstr("verify that the legs")));
  const std::vector<std::string> after = Legs(id);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  EXPECT_EQ(ConditionOf(id), "healthy");
  const auto condition_of_disk = [&] {
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    return std::ranges::find(pools->front().disks, before[1], &DiskStatus::pv_uuid)->condition;
  };
  EXPECT_EQ(condition_of_disk(), DiskCondition::kFailing);
  const std::string linear = Create("linear", "linear", 390);
  EXPECT_NE(Legs(linear).front(), before[1]) << "it is the emptiest, and gets nothing new";
  Pass(std::chrono::hours(25));
  Mend();
  EXPECT_EQ(condition_of_disk(), DiskCondition::kOk);
}

// The disk, and not the legs that were replaced, is what an administrator has to hear of.
TEST_F(MendingTest, ADiskWhoseLegsFailedIsStillFailingAfterARestart) {
  const std::string id = Create("mirror", "raid1");
  const std::string disk = Legs(id)[1];
  for (int i = 0; i < 3; ++i) {
    SetLegs(id, "AD");
    Mend(RepairCause::kEvent);
    SetLegs(id, "AD");
    clock_.now += *Mend(RepairCause::kEvent).next;
  }
  Mend(RepairCause::kEvent);
  ASSERT_NE(Legs(id)[1], disk);
  const auto condition = [&] {
    Mend();
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    return std::ranges::find(pools->front().disks, disk, &DiskStatus::pv_uuid)->condition;
  };
  const auto tags = [&] { return Group()->FindPv(disk)->tags; };
  const auto failed = std::chrono::floor<std::chrono::seconds>(clock_.WallNow());
  EXPECT_THAT(tags(), ElementsAre(lvm::DroppingTag(failed)));

  Pass(std::chrono::hours(20));
  Begin({});
  EXPECT_EQ(condition(), DiskCondition::kFailing);
  EXPECT_THAT(tags(), ElementsAre(lvm::DroppingTag(failed))) << "a restart does not begin the day again";
  Pass(std::chrono::hours(3));
  EXPECT_EQ(condition(), DiskCondition::kFailing);
  Pass(std::chrono::hours(1));
  EXPECT_EQ(condition(), DiskCondition::kOk);
  EXPECT_THAT(tags(), IsEmpty());
}

TEST_F(MendingTest, ADiskIsSoundAgainOnceItsTagIsRemoved) {
  const std::string disk = Group()->pvs[2].uuid;
  const auto tag = [&](const std::string& text) {
    lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {
      group.pvs[2].tags = text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
    });
  };
  const auto condition = [&] {
    Mend();
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    return std::ranges::find(pools->front().disks, disk, &DiskStatus::pv_uuid)->condition;
  };
  tag(lvm::DroppingTag(std::chrono::floor<std::chrono::seconds>(clock_.WallNow())));
  Begin({});
  EXPECT_EQ(
      std::ranges::find(engine_->lifecycle().NodeStatus(Soon())->front().disks, disk, &DiskStatus::pv_uuid)
          ->condition,
      DiskCondition::kFailing)
      << "from the first call on";
  EXPECT_EQ(condition(), DiskCondition::kFailing);
  tag("");
  EXPECT_EQ(condition(), DiskCondition::kOk);
  tag("quarry.dropping=soon");  // not ours in this form; no disk is failing for it, and it is removed
  EXPECT_EQ(condition(), DiskCondition::kOk);
  EXPECT_THAT(Group()->pvs[2].tags, IsEmpty());
}

// LVM changes no tags of PVs while a disk is missing. The tag is written once it can be.
TEST_F(MendingTest, TheTagOfAFailingDiskWaitsForLvmAndHoldsUpNothing) {
  const std::string id = Create("mirror", "raid1");
  const std::string disk = Legs(id)[1];
  lvm_.before.FailNth("ChangePv", 1, Error(Code::kInternal, "no"));
  for (int i = 0; i < 3; ++i) {
    SetLegs(id, "AD");
    Mend(RepairCause::kEvent);
    SetLegs(id, "AD");
    clock_.now += *Mend(RepairCause::kEvent).next;
  }
  Mend(RepairCause::kEvent);
  EXPECT_NE(Legs(id)[1], disk) << "the leg was replaced";
  EXPECT_THAT(Group()->FindPv(disk)->tags, IsEmpty());
  const std::string other = Legs(id)[1];
  SetMissing(other);
  Pass(std::chrono::seconds(20));
  Mend(RepairCause::kEvent);
  EXPECT_THAT(Group()->FindPv(disk)->tags, IsEmpty());
  SetMissing(other, false);
  Mend(RepairCause::kEvent);
  EXPECT_EQ(Group()->FindPv(disk)->tags.size(), 1U);
}

TEST_F(MendingTest, AShortAbsenceDoesNotClearAFailingDisk) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  std::string there = Create("there0", "linear", 40);
  for (int i = 1; Legs(there).front() != before[1]; ++i) {
    ASSERT_LT(i, 40);
    there = Create("there" + std::to_string(i), "linear", 40);
  }
  for (int i = 0; i < 3; ++i) {
    SetLegs(id, "AD");
    EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("refresh"))) << i;
    SetLegs(id, "AD");
    // The label of the disk cannot be read for a moment, but the kernel still has the disk.
    SetMissing(before[1]);
    Mend();
    SetMissing(before[1], false);
    clock_.now += *Mend().next;
  }
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("rebuild legs"), HasSubstr("verify")));
  const auto is_blamed = [&] {
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    return std::ranges::find(pools->front().disks, before[1], &DiskStatus::pv_uuid)->condition ==
           DiskCondition::kFailing;
  };
  EXPECT_TRUE(is_blamed());
  SetMissing(before[1]);
  Mend();
  SetMissing(before[1], false);
  Mend();
  EXPECT_TRUE(is_blamed());
  // A disk that was pulled and plugged in again is no longer failing.
  dm_.SetOnLostDisk(DmUuidOf(there), true);
  SetMissing(before[1]);
  Mend();
  SetMissing(before[1], false);
  Mend();
  EXPECT_FALSE(is_blamed());
}

TEST_F(MendingTest, OtherVolumesAlsoMoveTheirLegsOffAFailingDisk) {
  const std::string first = Create("first", "raid5", 100);
  const std::string second = Create("second", "raid5", 100);
  const std::string shared = Legs(first)[0];
  ASSERT_EQ(std::ranges::count(Legs(second), shared), 1);
  for (int i = 0; i < 3; ++i) {
    SetLegs(first, "DAA");
    EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("refresh"))) << i;
    SetLegs(first, "DAA");
    clock_.now += *Mend(RepairCause::kEvent).next;
  }
  EXPECT_EQ(ConditionOf(second), "healthy");
  SetLegs(second, "AAA", "resync");
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("rebuild"), HasSubstr("verify")));
  EXPECT_EQ(std::ranges::count(Legs(first), shared), 0);
  EXPECT_EQ(std::ranges::count(Legs(second), shared), 1) << "not during a resync";
  SetLegs(second, "AAA");
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("rebuild"), HasSubstr("verify")));
  EXPECT_EQ(std::ranges::count(Legs(second), shared), 0);
  EXPECT_EQ(ConditionOf(second), "healthy");
}

TEST_F(MendingTest, OneUnplaceableLegDoesNotBlockOtherRepairs) {
  const std::string id = Create("mirror", "raid1", 100);
  const std::string other = Create("other", "raid1", 100);
  const std::vector<std::string> before = Legs(id);
  lvm_.before.FailNth("Repair", 1, Error(Code::kTimeout, "not now"));
  for (int i = 0; i < 3; ++i) {
    SetLegs(id, "AD");
    Mend(RepairCause::kEvent);
    SetLegs(id, "AD");
    clock_.now += *Mend(RepairCause::kEvent).next;
  }
  EXPECT_THAT(Mend(RepairCause::kEvent).obstacles, ElementsAre(HasSubstr("not now")));
  SetLegs(other, "DA");
  EXPECT_THAT(Mend(RepairCause::kEvent).done, Contains(HasSubstr("refresh")));
  // While the group lacks a disk LVM would refuse to replace the leg, so this is not tried.
  SetLegs(id, "AD");
  Pass(std::chrono::hours(1));
  const lvm::Snapshot group = Group();
  const auto unused = std::ranges::find_if(
      group->pvs, [&](const lvm::PhysicalVolume& pv) { return std::ranges::count(before, pv.uuid) == 0; });
  ASSERT_NE(unused, group->pvs.end());
  SetMissing(unused->uuid);
  for (const std::string& step : Mend(RepairCause::kEvent).done) {
    EXPECT_EQ(step.find("rebuild"), std::string::npos) << step;
  }
}

TEST_F(MendingTest, ALegWithoutAnotherPlaceIsRefreshedAgainAndAgain) {
  const std::string id = Create("parity", "raid5", 300);
  for (int i = 0; i < 3; ++i) {
    Create("filler" + std::to_string(i), "linear", 330);
  }
  for (int i = 0; i < 5; ++i) {
    SetLegs(id, "ADA");
    EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("refresh"))) << i;
    SetLegs(id, "ADA");
    const RepairReport report = Mend(RepairCause::kEvent);
    ASSERT_TRUE(report.next.has_value());
    clock_.now += *report.next;
  }
}

TEST_F(MendingTest, ADiskThatKeepsFailingIsTakenBackAtGrowingIntervals) {
  Begin([](EngineConfig& config) { config.repair = false; });
  const std::string id = Create("mirror", "raid1");
  std::vector<std::chrono::milliseconds> waits;
  for (int i = 0; i < 4; ++i) {
    SetLegs(id, "AD");
    EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("refresh"))) << i;
    SetLegs(id, "AD");
    const RepairReport report = Mend();
    EXPECT_THAT(report.done, IsEmpty());
    ASSERT_TRUE(report.next.has_value());
    waits.push_back(*report.next);
    clock_.now += *report.next;
  }
  EXPECT_EQ(waits[1], 2 * waits[0]);
  EXPECT_EQ(waits[3], 8 * waits[0]);
  SetLegs(id, "AA");
  Pass(std::chrono::hours(1));
  Mend();
  SetLegs(id, "AD");
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("refresh")));
  SetLegs(id, "AD");
  EXPECT_EQ(Mend().next, waits[0]) << "it has been well for long";
}

TEST_F(MendingTest, ManualPolicyChangesNoLegOrGroupUntilRequested) {
  Begin([](EngineConfig& config) { config.repair = false; });
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  SetMissing(before[0]);
  Mend();
  Pass(std::chrono::hours(24));
  EXPECT_THAT(Mend().done, IsEmpty());
  EXPECT_EQ(Legs(id), before);
  EXPECT_THAT(Mend(RepairCause::kAsked).done,
              ElementsAre(HasSubstr("rebuild"), HasSubstr("verify"), HasSubstr("out of group")));
  EXPECT_NE(Legs(id), before);
}

TEST_F(MendingTest, AVolumeWithTooFewLegsIsNotRebuilt) {
  const std::string id = Create("parity", "raid5");
  const std::vector<std::string> before = Legs(id);
  SetMissing(before[0]);
  SetMissing(before[2]);
  Mend();
  Pass(std::chrono::hours(24));
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("too few legs")));
  EXPECT_EQ(ConditionOf(id), "failed");
  SetMissing(before[0], false);
  SetMissing(before[2], false);
  EXPECT_THAT(Mend().done, IsEmpty());
  EXPECT_EQ(Legs(id), before);
  EXPECT_EQ(ConditionOf(id), "healthy");
}

TEST_F(MendingTest, ALegOutOfSyncDoesNotCountAsASource) {
  const std::string id = Create("mirror", "raid1");
  SetMissing(Legs(id)[0]);
  SetLegs(id, "Aa");
  Pass(std::chrono::hours(24));
  Mend();
  Pass(std::chrono::hours(24));
  EXPECT_THAT(Mend().obstacles, ElementsAre(HasSubstr("too few legs")));
}

TEST_F(MendingTest, TheNextRebuildWaitsWhileLegsAreRebuilt) {
  const std::string id = Create("mirror", "raid1");
  SetMissing(Legs(id)[0]);
  Mend();
  Pass(std::chrono::hours(24));
  SetLegs(id, "AA", "recover");
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_TRUE(report.next.has_value()) << "it is looked at again soon";
  SetLegs(id, "AA");
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("rebuild"), HasSubstr("verify"), HasSubstr("out of")));
}

TEST_F(MendingTest, ARebuildWithoutASpareDiskAsksForOne) {
  const std::string id = Create("wide", "raid10");  // a leg on each of the four
  SetMissing(Legs(id)[1]);
  Mend();
  Pass(std::chrono::hours(24));
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("add a disk to the group")));
  EXPECT_EQ(ConditionOf(id), "degraded");
}

TEST_F(MendingTest, AGroupIsNotReducedWhileALinearVolumeLiesOnALostDisk) {
  const std::string id = Create("linear", "linear");
  SetMissing(Legs(id)[0]);
  Mend();
  Pass(std::chrono::hours(24));
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("no other disk has these data")));
  EXPECT_EQ(Group()->pvs.size(), 4U);
}

// While anything lies on the missing disk, LVM makes nothing new in the whole group.
TEST_F(MendingTest, ADeletedVolumeOnALostDiskIsErasedWherePossible) {
  for (const std::string type : {"raid1", "linear"}) {
    SCOPED_TRACE(type);
    const std::string id = Create("v-" + type, type, 40);
    const size_t disks = Group()->pvs.size();
    const std::vector<std::string> legs = Legs(id);
    const lvm::Snapshot before = Group();
    SetMissing(legs[0]);
    Mend();
    ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_NE(Lv(Group(), id), nullptr) << "its disk may come back";
    EXPECT_THAT(Mend().done, IsEmpty());

    Pass(std::chrono::seconds(61));
    for (int i = 0; i < 2000 && Group()->pvs.size() == disks; ++i) {
      Mend(RepairCause::kEvent);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(Group()->lvs.empty());
    EXPECT_EQ(Group()->pvs.size(), disks - 1);
    for (size_t leg = 1; leg < legs.size(); ++leg) {
      for (const auto& range : lvm::PhysicalExtents(*before, *Lv(before, id))) {
        if (range.pv_uuid == legs[leg]) {
          const Bytes offset =
              before->FindPv(legs[leg])->pe_start + ToBytes(range.range.first, before->extent_size);
          EXPECT_TRUE(erase_.IsZeroed(legs[leg], offset, ToBytes(range.range.count, before->extent_size)));
        }
      }
    }
    EXPECT_FALSE(Create("again-" + type, "linear", 40).empty());
    ASSERT_TRUE(
        engine_->volumes().Delete(lvm::VolumeId("default", Group()->lvs.front().name), Soon()).has_value());
    for (int i = 0; i < 2000 && !Group()->lvs.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

TEST_F(MendingTest, TheDelayStartsAgainWhenADiskIsLostAgain) {
  const std::string id = Create("v", "linear", 40);
  const std::string leg = Legs(id)[0];
  SetMissing(leg);
  Mend();
  Pass(std::chrono::seconds(61));
  Mend();  // given up
  SetMissing(leg, false);
  Mend();
  SetMissing(leg);
  Mend();
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_NE(Lv(Group(), id), nullptr) << "it has been away for a moment only";
  Pass(std::chrono::seconds(61));
  for (int i = 0; i < 2000 && Lv(Group(), id) != nullptr; ++i) {
    Mend(RepairCause::kEvent);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(Lv(Group(), id), nullptr);
}

TEST_F(MendingTest, AReturnedDiskIsErasedEvenIfItWasGivenUp) {
  const std::string id = Create("mirror", "raid1", 40);
  const std::string other = Create("other", "linear", 40);
  const std::vector<std::string> legs = Legs(id);
  SetMissing(legs[0]);
  Mend();
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "not yet"));
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  Pass(std::chrono::seconds(61));
  Mend(RepairCause::kEvent);
  SetMissing(legs[0], false);
  const size_t before = erase_.Pieces().size();
  erase_.faults.Clear();
  Begin({});
  for (int i = 0; i < 4000 && Lv(Group(), id) != nullptr; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(Lv(Group(), id), nullptr);
  const auto pieces = erase_.Pieces();
  EXPECT_TRUE(std::any_of(pieces.begin() + static_cast<ptrdiff_t>(before), pieces.end(),
                          [&](const auto& piece) { return piece.pv_uuid == legs[0]; }));
}

TEST_F(MendingTest, ADiskThatLvmRefusesDoesNotBlockOtherSteps) {
  const std::string one = Create("one", "raid1");
  const std::string other = Create("other", "raid1");
  const std::vector<std::string> legs = Legs(one);
  ASSERT_THAT(Legs(other), Not(Contains(legs[0])));
  SetMissing(legs[0]);
  Mend();
  lvm_.ReturnDisk("vg0", legs[0]);
  lvm_.before.FailAlways("RestorePv", Error(Code::kIo, "refused"));
  for (const RepairCause cause : {RepairCause::kEvent, RepairCause::kAsked}) {
    SetLegs(other, "DA");
    Pass(std::chrono::seconds(30));
    const RepairReport report = Mend(cause);
    EXPECT_THAT(report.done, ElementsAre(HasSubstr("refresh")));
    EXPECT_THAT(report.obstacles, Contains(HasSubstr("refused")));
  }
  lvm_.before.Clear();
  Pass(std::chrono::minutes(2));
  EXPECT_THAT(Mend(RepairCause::kEvent).done, Contains(HasSubstr("back into group")));
  EXPECT_EQ(Group()->MissingPvs(), 0U);
}

TEST_F(MendingTest, ADiskThatLvmRefusesDoesNotBlockOtherReturns) {
  const std::string one = Create("one", "raid1");
  const std::vector<std::string> legs = Legs(one);
  const std::string other = Group()->pvs.back().uuid;
  ASSERT_THAT(legs, Not(Contains(other)));
  for (const std::string& uuid : {legs[0], other}) {
    SetMissing(uuid);
  }
  Mend();
  lvm_.ReturnDisk("vg0", legs[0]);
  lvm_.ReturnDisk("vg0", other);
  lvm_.before.FailNth("RestorePv", 1, Error(Code::kIo, "refused"));  // the first that is asked for
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, Contains(HasSubstr("back into group")));
  EXPECT_THAT(report.obstacles, Contains(HasSubstr("refused")));
  EXPECT_EQ(Group()->MissingPvs(), 1U);
}

TEST_F(MendingTest, AShortReturnCountsWhileRepairsArePutOff) {
  const std::string one = Create("one", "raid1");
  const std::string other = Create("other", "raid1");
  const std::vector<std::string> legs = Legs(one);
  ASSERT_THAT(Legs(other), Not(Contains(legs[0])));
  SetMissing(legs[0]);
  SetLegs(other, "DA");
  lvm_.before.FailAlways("Refresh", Error(Code::kIo, "refused"));
  EXPECT_THAT(Mend(RepairCause::kEvent).obstacles, Contains(HasSubstr("refused")));
  Pass(std::chrono::seconds(9));
  for (const bool missing : {false, true}) {  // back for a moment, while repairs are put off
    SetMissing(legs[0], missing);
    EXPECT_THAT(Mend(RepairCause::kEvent).done, IsEmpty());
  }
  Pass(std::chrono::seconds(52));
  lvm_.before.Clear();
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("refresh")))
      << "it has been away for 52 s, not for 61";
}

TEST_F(MendingTest, AMissingDiskWithoutExtentsIsRemovedFromItsGroup) {
  const lvm::Snapshot group = Group();
  SetMissing(group->pvs[3].uuid);
  Mend();
  Pass(std::chrono::seconds(61));
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("out of group")));
  EXPECT_EQ(Group()->pvs.size(), 3U);
}

TEST_F(MendingTest, AGroupWithoutDisksIsNotReduced) {
  const lvm::Snapshot group = Group();
  for (const lvm::PhysicalVolume& pv : group->pvs) {
    SetMissing(pv.uuid);
  }
  Mend();
  Pass(std::chrono::hours(24));
  EXPECT_THAT(Mend().done, IsEmpty());
  EXPECT_EQ(Group()->pvs.size(), 4U);
}

TEST_F(MendingTest, AnInactiveVolumeIsActivatedForItsRebuild) {
  const std::string id = Create("mirror", "raid1");
  const std::vector<std::string> before = Legs(id);
  lvm_.Reboot();
  dm_.Reboot();
  SetMissing(before[0]);
  Mend();
  Pass(std::chrono::seconds(61));
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("activate"), HasSubstr("rebuild"), HasSubstr("verify"),
                                       HasSubstr("out of group")));
  EXPECT_NE(Legs(id), before);
}

TEST_F(MendingTest, ABusyVolumeIsRepairedLater) {
  const std::string id = Create("mirror", "raid1");
  SetMissing(Legs(id)[0]);
  Mend();
  Pass(std::chrono::seconds(61));
  lvm_.before.FailNth("Repair", 1, Error(Code::kBusy, "something else"));
  const RepairReport failed = Mend();
  EXPECT_THAT(failed.obstacles, ElementsAre(HasSubstr("something else")));
  EXPECT_TRUE(failed.next.has_value());
  const RepairReport soon = Mend();
  EXPECT_THAT(soon.done, IsEmpty()) << "not over and over";
  ASSERT_TRUE(soon.next.has_value());
  clock_.now += *soon.next;
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("rebuild"), HasSubstr("verify"), HasSubstr("out of group")));
}

// After an unreported failure, and after a crash, the repair continues from the present state.
TEST_F(MendingTest, AStepThatTookEffectDespiteAnErrorIsNotRepeated) {
  const std::string id = Create("mirror", "raid1");
  SetMissing(Legs(id)[0]);
  Mend();
  Pass(std::chrono::seconds(61));
  lvm_.after.FailNth("Repair", 1, Error(Code::kTimeout, "killed"));
  Mend();
  Begin({});
  Mend();
  Pass(std::chrono::seconds(61));
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("out of group")));
  EXPECT_EQ(ConditionOf(id), "healthy");
}

TEST_F(MendingTest, AVolumeThatWasLeftSuspendedIsResumed) {
  const std::string id = Create("mirror", "raid1");
  dm_.SetSuspended(DmUuidOf(id), true);
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("activate")));
}

}  // namespace
}  // namespace quarry::engine
