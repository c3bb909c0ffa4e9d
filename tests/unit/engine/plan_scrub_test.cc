// Scrubs: when legs are compared, what is recorded, what does not count, and how fast rebuilds are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/config.h"
#include "engine/model/volume_health.h"
#include "engine/repair/plan_scrub.h"
#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using std::chrono::days;
using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ScrubbingTest : public MendingTest {
 protected:
  std::vector<ScrubAnswer> Ask(const std::vector<std::string>& ids, bool repair = false) {
    const auto asked = engine_->upkeep().Scrub({ids, repair}, Soon());
    EXPECT_TRUE(asked.has_value()) << (asked.has_value() ? "" : asked.error().message());
    return asked.value_or(std::vector<ScrubAnswer>());
  }
  std::string ActionOf(const std::string& id) { return (*dm_.Raid(DmUuidOf(id)))->action; }
  bool IsChecked(const std::string& id) { return ActionOf(id) == "check"; }
  // The running scrub or sync of the kernel ends.
  void End(const std::string& id, uint64_t mismatches = 0) { dm_.EndScrub(DmUuidOf(id), mismatches); }
  VolumeStatus StatusOf(const std::string& id) {
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    for (const VolumeStatus& volume : pools->front().volumes) {
      if (volume.id == id) {
        return volume;
      }
    }
    return {};
  }
  std::optional<ScrubOutcome> OutcomeOf(const std::string& id) { return StatusOf(id).scrubbed; }
  void SetCreated(std::chrono::sys_seconds when) {
    lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::LogicalVolume& lv : group.lvs) {
        lv.created = static_cast<uint64_t>(when.time_since_epoch().count());
      }
    });
  }
  std::chrono::sys_seconds Now() { return std::chrono::floor<std::chrono::seconds>(clock_.WallNow()); }
  void BeginEvery(days interval, EngineConfig::Hours at = {}) {
    Begin([&](EngineConfig& config) {
      config.scrub_interval = interval;
      config.scrub_hours = at;
    });
  }
};

TEST(ScrubOutcomeTest, AnOutcomeSurvivesInATag) {
  const ScrubOutcome outcome{std::chrono::sys_days(std::chrono::May / 1 / 2027), Bytes{8192}};
  EXPECT_EQ(ReadScrub(ScrubText(outcome)), outcome);
  for (const char* text : {"", "1", "1:", ":1", "a:1", "1:1x"}) {
    EXPECT_EQ(ReadScrub(text), std::nullopt) << text;
  }
}

TEST_F(ScrubbingTest, RequestedScrubsRunOneAfterAnotherAndAreRecorded) {
  const std::string first = Create("first", "raid1", 100);
  const std::string second = Create("second", "raid5", 100);
  Create("linear", "linear", 4);
  const uint64_t before = Group()->seqno;
  EXPECT_EQ(OutcomeOf(first), std::nullopt);
  const auto answers = Ask({});
  ASSERT_EQ(answers.size(), 2U) << "the linear one has nothing to compare";
  EXPECT_TRUE(StatusOf(first).scrub_pending);
  EXPECT_THAT(Mend(RepairCause::kEvent).done, IsEmpty()) << "that is no repair";
  EXPECT_NE(IsChecked(first), IsChecked(second));
  const std::string now = IsChecked(first) ? first : second;
  const std::string then = IsChecked(first) ? second : first;
  EXPECT_EQ(StatusOf(now).detail, "being checked, 0 % done");
  EXPECT_EQ(ConditionOf(now), "healthy");
  Mend(RepairCause::kEvent);
  EXPECT_FALSE(IsChecked(then));

  End(now);
  Pass(hours(2));
  Mend(RepairCause::kEvent);
  EXPECT_EQ(OutcomeOf(now), (ScrubOutcome{Now(), Bytes{0}}));
  EXPECT_FALSE(StatusOf(now).scrub_pending);
  EXPECT_TRUE(IsChecked(then));
  EXPECT_TRUE(StatusOf(then).scrub_pending);
  End(then);
  Mend(RepairCause::kEvent);
  EXPECT_EQ(Group()->seqno, before + 2) << "one commit each";
  Mend(RepairCause::kEvent);
  EXPECT_FALSE(IsChecked(first) || IsChecked(second));
}

TEST_F(ScrubbingTest, AParityMismatchDegradesAVolumeUntilItIsRepaired) {
  const std::string id = Create("parity", "raid5", 100);
  Ask({id});
  Mend();
  End(id, 16);
  Mend();
  EXPECT_EQ(OutcomeOf(id)->mismatched, Bytes{8192});
  EXPECT_EQ(ConditionOf(id), "degraded");
  EXPECT_THAT(StatusOf(id).detail, HasSubstr("quarryctl scrub --repair " + id));
  Begin({});
  EXPECT_EQ(ConditionOf(id), "degraded") << "it is not forgotten";

  Ask({id}, true);
  Mend();
  EXPECT_EQ(ActionOf(id), "repair");
  End(id, 16);
  Mend();
  EXPECT_EQ(OutcomeOf(id)->mismatched, Bytes{0});
  EXPECT_EQ(ConditionOf(id), "healthy");
}

TEST_F(ScrubbingTest, MirrorMismatchesAreReportedAndTheVolumeStaysHealthy) {
  const std::string id = Create("mirror", "raid1", 100);
  Ask({id});
  Mend();
  End(id, 8);
  Mend();
  EXPECT_EQ(ConditionOf(id), "healthy");
  EXPECT_THAT(StatusOf(id).detail, HasSubstr("4 KiB"));
}

TEST_F(ScrubbingTest, TheVolumeThatHasWaitedLongestIsScrubbedFirst) {
  const std::string old = Create("old", "raid1", 100);
  BeginEvery(days(28));
  SetCreated(Now() - days(10));
  Mend();
  EXPECT_FALSE(IsChecked(old));
  Pass(days(10));
  const std::string young = Create("young", "raid1", 100);
  lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {
    for (lvm::LogicalVolume& lv : group.lvs) {
      if (lv.name == lvm::ParseVolumeId(young)->lv_name) {
        lv.created = static_cast<uint64_t>(Now().time_since_epoch().count());
      }
    }
  });
  Pass(days(29));
  Mend();
  EXPECT_TRUE(IsChecked(old));
  EXPECT_FALSE(IsChecked(young)) << "one at a time";
  End(old);
  Mend();
  EXPECT_TRUE(IsChecked(young));
  Pass(hours(1));
  End(young);
  Mend();
  Pass(days(27));
  Mend();
  EXPECT_FALSE(IsChecked(old) || IsChecked(young));
  Pass(days(1));
  Mend();
  EXPECT_TRUE(IsChecked(old));
}

TEST_F(ScrubbingTest, AScheduledScrubBeginsWithinItsHoursOnly) {
  const std::string id = Create("mirror", "raid1", 100);
  std::time_t wall = std::chrono::system_clock::to_time_t(clock_.WallNow());
  const auto hour = static_cast<uint32_t>(localtime(&wall)->tm_hour);  // NOLINT(concurrency-mt-unsafe)
  BeginEvery(days(1), {(hour + 23) % 24, (hour + 25) % 24});           // may span midnight
  Pass(hours(2));
  Mend();
  EXPECT_FALSE(IsChecked(id));
  Pass(hours(20));
  Mend();
  EXPECT_FALSE(IsChecked(id));
  Pass(hours(1));
  Mend();
  EXPECT_TRUE(IsChecked(id));
}

TEST_F(ScrubbingTest, AnAbortedScrubDoesNotCount) {
  const std::string id = Create("mirror", "raid1", 100);
  const std::string lv = lvm::ParseVolumeId(id)->lv_name;
  // The volume was deactivated and activated in between, so the kernel's count of mismatches means nothing.
  Ask({id});
  Mend();
  ASSERT_TRUE(IsChecked(id));
  ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lv, 0}, Soon()).has_value());
  ASSERT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg0", {lv}}, Soon()).has_value());
  SetLegs(id, "AA");
  Mend();
  EXPECT_EQ(OutcomeOf(id), std::nullopt);
  EXPECT_FALSE(StatusOf(id).scrub_pending);
  // The volume is inactive now.
  Ask({id});
  Mend();
  ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lv, 0}, Soon()).has_value());
  Mend();
  EXPECT_EQ(OutcomeOf(id), std::nullopt);
  EXPECT_FALSE(StatusOf(id).scrub_pending);
  // A leg failed.
  ASSERT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg0", {lv}}, Soon()).has_value());
  SetLegs(id, "AA");
  Ask({id});
  Mend();
  ASSERT_TRUE(IsChecked(id));
  SetLegs(id, "AD");
  Mend();
  Mend();
  EXPECT_EQ(OutcomeOf(id), std::nullopt);
  EXPECT_FALSE(StatusOf(id).scrub_pending);
}

TEST_F(ScrubbingTest, AVolumeThatGrewDuringItsScrubIsScrubbedAgain) {
  const std::string id = Create("mirror", "raid1", 100);
  BeginEvery(days(28));
  SetCreated(Now() - days(30));
  Mend();
  ASSERT_TRUE(IsChecked(id));
  const auto grown = engine_->volumes().Expand(id, {Bytes{200 * kMiB.value}, {}}, {}, Soon());
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  SetLegs(id, "AA");
  EXPECT_FALSE(OutcomeOf(id).has_value());
  Mend();
  EXPECT_FALSE(OutcomeOf(id).has_value());
  EXPECT_TRUE(IsChecked(id)) << "begun again";
  End(id);
  Mend();
  EXPECT_TRUE(OutcomeOf(id).has_value());
}

TEST_F(ScrubbingTest, TheNextProcessRecordsARunningScrub) {
  const std::string id = Create("mirror", "raid1", 100);
  Ask({id});
  Mend();
  Begin({});
  Mend();
  EXPECT_TRUE(StatusOf(id).scrub_pending);
  End(id);
  Mend();
  EXPECT_TRUE(OutcomeOf(id).has_value());
}

TEST_F(ScrubbingTest, AnInactiveVolumeIsActivatedForItsScrub) {
  const std::string id = Create("mirror", "raid1", 100);
  ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lvm::ParseVolumeId(id)->lv_name, 0}, Soon()).has_value());
  Ask({id});
  Mend();  // the fake does not know that this is a RAID volume, so the kernel refuses
  EXPECT_TRUE(dm_.Find(DmUuidOf(id))->has_value());
}

TEST_F(ScrubbingTest, NoScrubRunsInADegradedGroup) {
  const std::string mirror = Create("mirror", "raid1", 100);
  const std::string linear = Create("linear", "linear", 4);
  EXPECT_EQ(engine_->upkeep().Scrub({{linear}, false}, Soon()).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_->upkeep().Scrub({{"default.qaaaaaaaaaaaaaaaaaaaaaaaaaa"}, false}, Soon()).error().code(),
            Code::kNotFound);
  SetLegs(mirror, "Aa", "recover");
  EXPECT_THAT(Ask({mirror}).front().refusal, HasSubstr("")) << "once it is in sync";
  Mend();
  EXPECT_EQ(ActionOf(mirror), "recover");
  SetLegs(mirror, "AA");
  SetMissing(Legs(mirror)[1]);
  EXPECT_THAT(Ask({mirror}).front().refusal, HasSubstr("missing"));
  Mend();
  EXPECT_FALSE(IsChecked(mirror));
  SetMissing(Legs(mirror)[1], false);
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = Legs(mirror)[0]}, Soon()).has_value());
  EXPECT_THAT(Ask({mirror}).front().refusal, HasSubstr("being evacuated"));
}

TEST_F(ScrubbingTest, AScrubThatTheKernelRefusesIsRetriedLater) {
  const std::string first = Create("first", "raid1", 100);
  const std::string second = Create("second", "raid1", 100);
  BeginEvery(days(28));
  SetCreated(Now() - days(30));
  dm_.faults.FailNth("Scrub", 1, Error(Code::kPrecondition, "not now"));
  const RepairReport report = Mend();
  EXPECT_THAT(report.obstacles, ElementsAre(HasSubstr("not now")));
  EXPECT_FALSE(IsChecked(first) || IsChecked(second));
  Mend();
  EXPECT_NE(IsChecked(first), IsChecked(second)) << "the other one";
}

class RebuildRateTest : public ScrubbingTest {
 protected:
  Bytes RateOf(const std::string& id) {
    const lvm::Snapshot group = Group();
    return Lv(group, id)->segments.front().max_recovery_rate;
  }
  void BeginWith(std::optional<Bytes> rate) {
    Begin([&](EngineConfig& config) { config.rebuild_rate = rate; });
  }
};

TEST_F(RebuildRateTest, TheRateAppliesToNewAndExistingVolumes) {
  const std::string before = Create("before", "raid1", 100);
  const std::string linear = Create("linear", "linear", 4);
  EXPECT_EQ(RateOf(before), Bytes{0});
  BeginWith(Bytes{10 * kMiB.value});
  const std::string after = Create("after", "raid5", 100);
  EXPECT_EQ(RateOf(after), Bytes{10 * kMiB.value});
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("10 MiB/s")));
  EXPECT_EQ(RateOf(before), Bytes{10 * kMiB.value});
  EXPECT_EQ(RateOf(linear), Bytes{0});
  EXPECT_THAT(Mend().done, IsEmpty());
  BeginWith(std::nullopt);
  EXPECT_THAT(Mend().done, IsEmpty()) << "what was set is left as it is";
  BeginWith(Bytes{0});
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("any rate")));
  EXPECT_EQ(RateOf(after), Bytes{0});
}

TEST_F(RebuildRateTest, AFailureToSetTheRateDoesNotBlockRepairs) {
  const std::string id = Create("mirror", "raid1", 100);
  BeginWith(kMiB);
  lvm_.before.FailNth("LimitRecovery", 1, Error(Code::kTimeout, "not now"));
  EXPECT_THAT(Mend().obstacles, ElementsAre(HasSubstr("not now")));
  SetLegs(id, "AD");
  EXPECT_THAT(Mend().done, ElementsAre(HasSubstr("refresh")));
}

}  // namespace
}  // namespace quarry::engine
