// Evacuation of disks: what is moved where, which obstacles there are, and that an interrupted evacuation
// continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LeavingTest : public MendingTest {
 protected:
  Result<EvacuateResult> Evacuate(EvacuateRequest request) {
    return engine_->disks().Evacuate(request, Soon());
  }
  std::vector<std::string> Pvs() {
    const lvm::Snapshot group = Group();
    std::vector<std::string> out;
    for (const lvm::PhysicalVolume& pv : group->pvs) {
      out.push_back(pv.uuid);
    }
    return out;
  }
  std::string StateOf(const std::string& pv_uuid) {
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    for (const DiskStatus& disk : pools->front().disks) {
      if (disk.pv_uuid == pv_uuid) {
        return std::string(DiskConditionName(disk.condition));
      }
    }
    return "gone";
  }
};

TEST_F(LeavingTest, AnEvacuatedDiskIsEmptiedAndLeavesItsGroup) {
  const std::string mirror = Create("mirror", "raid1", 200);
  const std::string linear = Create("linear", "linear", 100);
  const std::string leaving = Legs(mirror)[0];
  const std::string stays = Legs(mirror)[1];
  bool woken = false;
  engine_->upkeep().OnWork([&] { woken = true; });
  const auto wish = Evacuate({.disk = leaving});
  ASSERT_TRUE(wish.has_value()) << wish.error().message();
  EXPECT_TRUE(wish->changed);
  EXPECT_TRUE(woken);
  EXPECT_THAT(wish->volumes, Contains(mirror));
  EXPECT_GT(wish->to_move.value, 200 * kMiB.value);
  EXPECT_EQ(StateOf(leaving), "leaving");

  const std::vector<std::string> done = MendUntilGone(leaving);
  EXPECT_THAT(done.front(), HasSubstr("move vg0/"));
  EXPECT_THAT(done.back(), HasSubstr("take disk"));
  EXPECT_THAT(Pvs(), Not(Contains(leaving)));
  const std::vector<std::string> legs = Legs(mirror);
  EXPECT_EQ(legs[1], stays) << "what lies elsewhere stays there";
  EXPECT_NE(legs[0], stays);
  EXPECT_NE(legs[0], leaving);
  EXPECT_NE(Legs(linear)[0], leaving);
  EXPECT_EQ(ConditionOf(mirror), "healthy");
}

TEST_F(LeavingTest, ADiskToBeVacatedGetsNothingNew) {
  const std::string leaving = Pvs()[0];
  ASSERT_TRUE(Evacuate({.disk = leaving}).has_value());
  const std::string id = Create("mirror", "raid1", 100);
  EXPECT_THAT(Legs(id), Not(Contains(leaving)));
}

TEST_F(LeavingTest, AnEvacuationThatDoesNotFitNamesTheMissingSpace) {
  for (const char* name : {"a", "b", "c"}) {
    Create(name, "linear", 380);
  }
  const std::string id = Create("d", "linear", 200);
  const auto wish = Evacuate({.disk = Legs(id)[0]});
  ASSERT_FALSE(wish.has_value());
  EXPECT_EQ(wish.error().code(), Code::kNoSpace);
  EXPECT_THAT(wish.error().message(), HasSubstr("too few"));
  EXPECT_THAT(wish.error().message(), HasSubstr("140 MiB"));
  EXPECT_EQ(StateOf(Legs(id)[0]), "ok") << "the request was not recorded";
}

TEST_F(LeavingTest, ADryRunChangesNothing) {
  const uint64_t before = Group()->seqno;
  const auto wish = Evacuate({.disk = Pvs()[0], .dry_run = true});
  ASSERT_TRUE(wish.has_value());
  EXPECT_FALSE(wish->changed);
  EXPECT_EQ(Group()->seqno, before);
}

TEST_F(LeavingTest, UnmanagedVolumesAreNotMoved) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    group.lvs.push_back(
        {.name = "theirs",
         .uuid = "theirs",
         .segments = {
             {.type = "linear", .logical = {{0}, {5}}, .areas = {{group.pvs[0].uuid, "", {{20}, {5}}}}}}});
  });
  const auto wish = Evacuate({.disk = Pvs()[0]});
  ASSERT_FALSE(wish.has_value());
  EXPECT_EQ(wish.error().code(), Code::kPrecondition);
  EXPECT_THAT(wish.error().message(), HasSubstr("theirs"));
}

TEST_F(LeavingTest, UnknownAndMissingDisksAreRefused) {
  EXPECT_EQ(Evacuate({.disk = "/dev/nosuch"}).error().code(), Code::kNotFound);
  SetMissing(Pvs()[1]);
  EXPECT_EQ(Evacuate({.disk = Pvs()[1]}).error().code(), Code::kPrecondition);
}

TEST_F(LeavingTest, ARepeatedRequestAndARestartContinueAnEvacuation) {
  const std::string id = Create("linear", "linear", 300);
  const std::string leaving = Legs(id)[0];
  ASSERT_TRUE(Evacuate({.disk = leaving}).has_value());
  const auto again = Evacuate({.disk = leaving});
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->changed);
  Begin({});
  MendUntilGone(leaving);
  EXPECT_THAT(Pvs(), Not(Contains(leaving)));
}

TEST_F(LeavingTest, AnEvacuationCanBeCancelled) {
  const std::string leaving = Pvs()[0];
  EXPECT_EQ(Evacuate({.disk = leaving, .cancel = true}).error().code(), Code::kPrecondition);
  ASSERT_TRUE(Evacuate({.disk = leaving}).has_value());
  ASSERT_TRUE(Evacuate({.disk = leaving, .cancel = true}).has_value());
  EXPECT_EQ(StateOf(leaving), "ok");
  EXPECT_THAT(Mend(RepairCause::kEvent).done, IsEmpty());
  EXPECT_TRUE(Group()->FindPv(leaving)->allocatable);
  EXPECT_THAT(Group()->FindPv(leaving)->tags, IsEmpty());
}

TEST_F(LeavingTest, ReplacingADiskRebuildsRaidLegsWithoutReadingIt) {
  const std::string mirror = Create("mirror", "raid1", 200);
  const std::string leaving = Legs(mirror)[1];
  ASSERT_TRUE(Evacuate({.disk = leaving, .rebuild = true}).has_value());
  const std::vector<std::string> done = MendUntilGone(leaving);
  EXPECT_THAT(done.front(), Not(HasSubstr("move")));
  EXPECT_THAT(Legs(mirror), Not(Contains(leaving)));
  EXPECT_THAT(Pvs(), Not(Contains(leaving)));
}

TEST_F(LeavingTest, LegsOfSeveralVolumesAreReplacedOneAfterAnother) {
  for (const char* name : {"a", "b", "c"}) {
    Create(name, "raid5", 60);
  }
  const std::string leaving = Pvs()[1];
  ASSERT_TRUE(Evacuate({.disk = leaving, .rebuild = true}).has_value());
  MendUntilGone(leaving);
  EXPECT_THAT(Pvs(), Not(Contains(leaving)));
}

TEST_F(LeavingTest, ALegThatItsVolumeNeedsIsNotReplaced) {
  const std::string mirror = Create("mirror", "raid1", 200);
  const std::string leaving = Legs(mirror)[1];
  SetLegs(mirror, "aA");
  ASSERT_TRUE(Evacuate({.disk = leaving, .rebuild = true}).has_value());
  const RepairReport report = Mend(RepairCause::kEvent);
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("cannot lose its leg")));
  EXPECT_EQ(Legs(mirror)[1], leaving);
}

TEST_F(LeavingTest, ARequestForRepairsDoesNotWaitForAnEvacuation) {
  const std::string id = Create("linear", "linear", 300);
  ASSERT_TRUE(Evacuate({.disk = Legs(id)[0]}).has_value());
  EXPECT_THAT(Mend(RepairCause::kAsked).done, IsEmpty());
}

TEST_F(LeavingTest, AFailedEvacuationIsRetriedAndBlocksNoOtherRepair) {
  const std::string mirror = Create("mirror", "raid1", 200);
  const std::string linear = Create("linear", "linear", 100);
  const std::string leaving = Legs(linear)[0];
  ASSERT_TRUE(Evacuate({.disk = leaving}).has_value());
  lvm_.before.FailNth("Move", 1, Error(Code::kIo, "it cannot be read"));
  const RepairReport report = MendSomething();
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("it cannot be read")));
  ASSERT_TRUE(report.next.has_value());
  EXPECT_GT(*report.next, std::chrono::seconds(1));
  SetLegs(mirror, "AD");
  EXPECT_THAT(Mend(RepairCause::kEvent).done, ElementsAre(HasSubstr("refresh")));
  Pass(std::chrono::seconds(3600));
  MendUntilGone(leaving);
  EXPECT_THAT(Pvs(), Not(Contains(leaving)));
}

}  // namespace
}  // namespace quarry::engine
