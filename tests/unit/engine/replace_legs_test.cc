// Replacement of legs as a plan: which steps it has, and when a leg is kept.
#include "engine/repair/plan_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// A mirror in a group with four disks. Its second leg is to be replaced.
class ReplaceLegsTest : public MendingTest {
 protected:
  ReplaceLegsTest() : id_(Create("mirror", "raid1")) { Look("AA"); }

  // Takes in the group as it is now, and the kernel's letters for the legs.
  void Look(const std::string& letters) {
    catalog_ = ReadCatalog("default", Group());
    view_ = {.catalog = &catalog_, .volumes = {}, .given_up = {}};
    volume_ = {.record = catalog_.ById(id_),
               .active = true,
               .raid = dm::RaidStatus{
                   .type = "raid1", .legs = letters, .in_sync = 100, .total = 100, .action = "idle"}};
  }
  const lvm::VolumeGroup& group() const { return *catalog_.group; }
  const lvm::LogicalVolume& lv() const { return *volume_.record->lv; }
  const lvm::PhysicalVolume& pv() const { return *group().FindPv(lvm::LegPvs(group(), lv())[1].front()); }
  // The disks that hold no leg.
  std::vector<const lvm::PhysicalVolume*> Others() const {
    std::vector<const lvm::PhysicalVolume*> out;
    for (const lvm::PhysicalVolume& one : group().pvs) {
      const auto there = lvm::LegsOn(group(), lv(), one.uuid);
      if (std::ranges::find(there, true) == there.end()) {
        out.push_back(&one);
      }
    }
    return out;
  }
  LegsToReplace Second() const {
    return {.which = {false, true}, .on = &pv(), .avoid = {}, .kind = RepairKind::kReplaceLeg};
  }
  std::expected<RepairStep, LegsKept> Replace(const LegsToReplace& legs) const {
    const Result<Profile>& profile = volume_.record->profile;
    return ReplaceLegs(view_, volume_, profile->geometry, legs);
  }

  std::string id_;
  Catalog catalog_;
  RepairView view_;
  VolumeView volume_;
};

TEST_F(ReplaceLegsTest, ALegOnAPresentDiskLeavesThatDisk) {
  const auto step = Replace(Second());
  ASSERT_TRUE(step.has_value()) << step.error().no_place;
  EXPECT_THAT(step->ids, ElementsAre(id_));
  EXPECT_EQ(step->kind, RepairKind::kReplaceLeg);
  ASSERT_THAT(step->actions, SizeIs(2));
  const lvm::RepairLv& spec = *Find<lvm::RepairLv>(step->actions[0]);
  EXPECT_EQ(spec.leave, pv().device);
  EXPECT_THAT(spec.pv_arguments, SizeIs(1));
  EXPECT_EQ(std::get<VerifyLegsAction>(step->actions[1]).left, pv().uuid);
}

TEST_F(ReplaceLegsTest, ALostLegLeavesNoDisk) {
  SetMissing(pv().uuid);
  Look("AD");
  const auto step = Replace({.which = lvm::LostLegs(group(), lv()), .avoid = {}});
  ASSERT_TRUE(step.has_value()) << step.error().no_place;
  EXPECT_EQ(step->kind, RepairKind::kRepair);
  ASSERT_THAT(step->actions, SizeIs(2));
  EXPECT_EQ(Find<lvm::RepairLv>(step->actions[0])->leave, "");
  EXPECT_EQ(std::get<VerifyLegsAction>(step->actions[1]).left, "");
}

TEST_F(ReplaceLegsTest, AnInactiveVolumeIsActivatedFirst) {
  LegsToReplace legs = Second();
  legs.activate = true;
  const auto step = Replace(legs);
  ASSERT_TRUE(step.has_value()) << step.error().no_place;
  ASSERT_THAT(step->actions, SizeIs(3));
  EXPECT_THAT(std::get<ActivateAction>(step->actions[0]).names, ElementsAre(lv().name));
}

TEST_F(ReplaceLegsTest, ALegThatTheVolumeNeedsIsKept) {
  for (const std::string letters : {"aA", "DA", "aD"}) {
    Look(letters);
    const auto step = Replace(Second());
    ASSERT_FALSE(step.has_value()) << letters;
    EXPECT_TRUE(step.error().needed) << letters;
    EXPECT_THAT(step.error().no_place, IsEmpty()) << letters;
  }
}

TEST_F(ReplaceLegsTest, ALostLegIsKeptWhileTheRestIsOutOfSync) {
  SetMissing(pv().uuid);
  Look("aD");
  const auto step = Replace({.which = lvm::LostLegs(group(), lv()), .avoid = {}});
  ASSERT_FALSE(step.has_value());
  EXPECT_TRUE(step.error().needed);
}

TEST_F(ReplaceLegsTest, DisksToAvoidGetNoNewLeg) {
  const auto others = Others();
  ASSERT_THAT(others, SizeIs(2));
  LegsToReplace legs = Second();
  for (const size_t avoided : {0, 1}) {
    legs.avoid.failing = {{others[avoided]->uuid, "x"}};
    const auto step = Replace(legs);
    ASSERT_TRUE(step.has_value()) << step.error().no_place;
    EXPECT_THAT(Find<lvm::RepairLv>(step->actions[0])->pv_arguments,
                ElementsAre(StartsWith(others[1 - avoided]->device + ":")));
  }
}

TEST_F(ReplaceLegsTest, ALegWithoutAnotherPlaceIsKept) {
  LegsToReplace legs = Second();
  for (const lvm::PhysicalVolume* const other : Others()) {
    legs.avoid.failing.emplace(other->uuid, "x");
  }
  legs.avoid.failing.emplace(pv().uuid, "x");
  const auto step = Replace(legs);
  ASSERT_FALSE(step.has_value());
  EXPECT_FALSE(step.error().needed);
  EXPECT_THAT(step.error().no_place, HasSubstr("excluded as failing"));

  Look("aA");
  const auto needed = Replace(legs);
  ASSERT_FALSE(needed.has_value());
  EXPECT_TRUE(needed.error().needed);
  EXPECT_THAT(needed.error().no_place, Not(IsEmpty())) << "both reasons are reported";
}

// What an administrator should do first: a leg without another place waits for a disk, whether or not the
// volume needs the leg.
TEST_F(ReplaceLegsTest, AFailingLegReportsAMissingPlaceBeforeMissingLegs) {
  const auto obstacles = [&] {
    volume_.hopeless = true;
    volume_.refresh_due = false;
    view_.volumes = {volume_};
    view_.may_replace_legs = true;
    return PlanRepair(view_).obstacles;
  };
  Look("aD");
  EXPECT_THAT(obstacles(), ElementsAre(HasSubstr("the other legs do not suffice now")));
  Look("aD");
  for (const lvm::PhysicalVolume* const other : Others()) {
    catalog_.weak.failing.emplace(other->uuid, "x");
  }
  EXPECT_THAT(obstacles(), ElementsAre(HasSubstr("add a disk to the group, or free space")));
}

TEST_F(ReplaceLegsTest, ALostLegReportsMissingLegsBeforeAMissingPlace) {
  SetMissing(pv().uuid);
  Look("aD");
  for (const lvm::PhysicalVolume* const other : Others()) {
    catalog_.weak.failing.emplace(other->uuid, "x");
  }
  view_.volumes = {volume_};
  view_.given_up = {pv().uuid};
  EXPECT_THAT(PlanRepair(view_).obstacles, ElementsAre(HasSubstr("too few legs left to be rebuilt")));
}

}  // namespace
}  // namespace quarry::engine
