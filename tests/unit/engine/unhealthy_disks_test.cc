// Disks whose own reports say that they are worn or failing: they are excluded, and their volumes' health
// says so.
#include "engine/model/failing_disks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/model/sizing.h"
#include "tests/fakes/fake_disk_health.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_udev.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

udev::DiskHealth Warns(uint8_t bits) {
  udev::DiskHealth health;
  health.critical_warning = bits;
  return health;
}
udev::DiskHealth Used(uint32_t percent) {
  udev::DiskHealth health;
  health.percentage_used = percent;
  return health;
}
udev::DiskHealth Spare(uint32_t left, uint32_t threshold) {
  udev::DiskHealth health;
  health.available_spare = left;
  health.spare_threshold = threshold;
  return health;
}

TEST(JudgeHealth, OnlyWarningsThatThreatenDataMakeADiskFailing) {
  for (const uint8_t bit : {udev::kSpareLow, udev::kReliabilityDegraded, udev::kReadOnlyMedia}) {
    EXPECT_EQ(JudgeHealth(Warns(bit)).state, DiskState::kFailing) << int{bit};
    EXPECT_FALSE(JudgeHealth(Warns(bit)).words.empty()) << int{bit};
  }
  EXPECT_EQ(JudgeHealth(Warns(udev::kTemperature | udev::kBackupFailed)).state, DiskState::kGood);
}

TEST(JudgeHealth, ADiskBelowItsOwnSpareThresholdIsFailing) {
  EXPECT_EQ(JudgeHealth(Spare(10, 10)).state, DiskState::kGood);
  EXPECT_EQ(JudgeHealth(Spare(9, 10)).state, DiskState::kFailing);
  EXPECT_THAT(JudgeHealth(Spare(9, 10)).words, HasSubstr("9 % left"));
}

TEST(JudgeHealth, ADiskIsWornAtItsFullLifeAndFailingOutranksWorn) {
  EXPECT_EQ(JudgeHealth(Used(99)).state, DiskState::kGood);
  EXPECT_EQ(JudgeHealth(Used(100)).state, DiskState::kWorn);
  EXPECT_THAT(JudgeHealth(Used(130)).words, HasSubstr("130 %"));
  udev::DiskHealth both = Used(255);
  both.critical_warning = udev::kReadOnlyMedia;
  EXPECT_EQ(JudgeHealth(both).state, DiskState::kFailing);
}

TEST(JudgeHealth, AFailingSataOrSasDiskSaysWhyInItsOwnWords) {
  udev::DiskHealth health = Warns(udev::kReliabilityDegraded);
  health.source = udev::HealthSource::kAta;
  health.failure = "its overall SMART status is FAILED";
  EXPECT_EQ(JudgeHealth(health).state, DiskState::kFailing);
  EXPECT_THAT(JudgeHealth(health).words, AllOf(HasSubstr("SMART status is FAILED"), Not(HasSubstr("media"))));
}

TEST(Excluded, WornDisksServeIfThereAreNoOthers) {
  const Catalog catalog = GroupBuilder({10, 10, 10}).Build();
  const auto withheld = [&](UnhealthyDisks weak) { return Excluded(*catalog.group, weak); };
  EXPECT_THAT(withheld({}), IsEmpty());
  EXPECT_THAT(withheld({.failing = {{"pv0", "x"}}, .worn = {{"pv1", "x"}}}), ElementsAre("pv0", "pv1"));
  EXPECT_THAT(withheld({.failing = {{"pv0", "x"}}, .worn = {{"pv1", "x"}, {"pv2", "x"}}}),
              ElementsAre("pv0"));
  EXPECT_THAT(withheld({.failing = {{"pv0", "x"}, {"pv1", "x"}, {"pv2", "x"}}, .worn = {}}),
              ElementsAre("pv0", "pv1", "pv2"));
  EXPECT_THAT(withheld({.failing = {{"stranger", "x"}}, .worn = {}}), IsEmpty());
}

TEST(Excluded, AMissingDiskDoesNotCountAsAnotherDisk) {
  GroupBuilder builder({10, 10});
  builder.group().pvs[0].missing = true;
  EXPECT_THAT(Excluded(*builder.Build().group, {.failing = {}, .worn = {{"pv1", "x"}}}), IsEmpty());
}

TEST(PlaceRebuiltLegs, AWornDiskServesIfNeededAndAFailingDiskNever) {
  fakes::FakeLvm lvm;
  lvm.AddGroup("vg0", Bytes{4 * kMiB.value},
               {{"/dev/a", Extents{50}}, {"/dev/b", Extents{50}}, {"/dev/c", Extents{50}}});
  const Call call = CallWithin(std::chrono::seconds(20));
  const lvm::Geometry raid1 = *lvm::Geometry::Make({.type = lvm::VolumeType::kRaid1});
  const lvm::Snapshot empty = *lvm.Read("vg0", call);
  lvm::FreeSpace two = lvm::FreeSpaceOf(*empty);
  two.pvs.pop_back();
  const auto placed = lvm::Place(two, raid1, {10}, *empty);
  ASSERT_TRUE(lvm.Apply(lvm::CreateLv{.group = "vg0",
                                      .name = "lv",
                                      .geometry = raid1,
                                      .step = placed->steps.front(),
                                      .tags = {},
                                      .wipe = lvm::Wipe::kNone,
                                      .activate = false},
                        call)
                  .has_value());
  lvm.Happen("vg0", [](lvm::VolumeGroup& vg) { vg.pvs.front().missing = true; });
  const lvm::Snapshot group = *lvm.Read("vg0", call);
  const std::string third = group->pvs[2].uuid;
  const auto place = [&](const UnhealthyDisks& weak) {
    return PlaceRebuiltLegs(*group, weak, raid1, *group->FindLv("lv"),
                            lvm::LostLegs(*group, *group->FindLv("lv")));
  };
  ASSERT_TRUE(place({}).has_value());
  EXPECT_TRUE(place({.failing = {}, .worn = {{third, "x"}}}).has_value());
  const auto failing = place({.failing = {{third, "x"}}, .worn = {}});
  ASSERT_FALSE(failing.has_value());
  EXPECT_EQ(failing.error().code(), Code::kNoSpace);
  EXPECT_THAT(failing.error().message(), HasSubstr("excluded as failing: PV " + third));
}

// An engine on disks that report their health.
class UnhealthyDisksTest : public testing::Test {
 protected:
  UnhealthyDisksTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value},
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    const fakes::FakeWorld world{.lvm = lvm_,
                                 .dm = dm_,
                                 .erase = erase_,
                                 .mount = mount_,
                                 .clock = clock_,
                                 .udev = udev_,
                                 .health = disks_};
    engine_ = std::make_unique<Engine>(config, world, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  ~UnhealthyDisksTest() override {
    for (const char* node : {"/dev/a", "/dev/b", "/dev/c"}) {
      disks_->GoOn(node);
    }
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }

  bool Ask(const Call& call = Soon()) {
    const auto changed = engine_->disks().PollDisks(call);
    EXPECT_TRUE(changed.has_value());
    return changed.has_value() && *changed;
  }
  Result<CreateResult> Create(const std::string& name, const std::string& type, uint64_t mib = 40) {
    return engine_->volumes().Create({.name = name,
                                      .range = {Bytes{mib * kMiB.value}, {}},
                                      .capabilities = {{}},
                                      .parameters = {{"type", type}}},
                                     Soon());
  }
  // Device nodes of the disks that the volume lies on.
  std::set<std::string> NodesOf(const CreateResult& made) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    std::set<std::string> nodes;
    for (const auto& leg : lvm::LegPvs(*group, *group->FindLv(lvm::ParseVolumeId(made.volume.id)->lv_name))) {
      for (const std::string& pv : leg) {
        nodes.insert(group->FindPv(pv)->device);
      }
    }
    return nodes;
  }
  // The first disk, "/dev/a".
  void SetMissing(bool missing) {
    lvm_.Happen("vg0", [=](lvm::VolumeGroup& group) { group.pvs.front().missing = missing; });
  }
  uint64_t Capacity(const std::string& type) {
    return engine_->volumes().Capacity({}, {{"type", type}}, Soon())->available.value / (4 * kMiB.value);
  }
  std::vector<std::string> Reasons(const CreateResult& made) {
    std::vector<std::string> out;
    const auto volume = engine_->volumes().Get(made.volume.id, Soon(), Show::kHealth);
    for (const Ailment& ailment : volume->health->ailments) {
      out.push_back(ailment.reason);
    }
    return out;
  }
  DiskStatus Status(const std::string& node) {
    const auto pools = engine_->lifecycle().NodeStatus(Soon());
    for (const DiskStatus& disk : pools->front().disks) {
      if (disk.device == node) {
        return disk;
      }
    }
    ADD_FAILURE() << "no disk is " << node;
    return {};
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  fakes::FakeUdev udev_;
  std::shared_ptr<fakes::FakeDiskHealth> disks_ = std::make_shared<fakes::FakeDiskHealth>();
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(UnhealthyDisksTest, DisksWithoutAHealthReportHaveNone) {
  EXPECT_FALSE(Ask());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kOk);
  EXPECT_FALSE(Status("/dev/a").health.has_value());
  EXPECT_EQ(Capacity("linear"), 300U);
}

TEST_F(UnhealthyDisksTest, AFailingDiskIsExcludedFromCreatesAndCapacity) {
  disks_->Say("/dev/a", Warns(udev::kReliabilityDegraded));
  disks_->Say("/dev/b", {});
  disks_->Say("/dev/c", {});
  EXPECT_EQ(Capacity("linear"), 300U) << "the disks are not polled yet";
  EXPECT_TRUE(Ask());
  EXPECT_FALSE(Ask()) << "an unchanged disk is not reported";
  EXPECT_EQ(Capacity("linear"), 200U);
  for (int i = 0; i < 6; ++i) {
    const auto made = Create("v" + std::to_string(i), i % 2 == 0 ? "linear" : "raid1");
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_FALSE(NodesOf(*made).contains("/dev/a"));
  }
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
  EXPECT_THAT(Status("/dev/a").detail, HasSubstr("not reliable"));
  EXPECT_EQ(Status("/dev/b").condition, DiskCondition::kOk);
  EXPECT_EQ(engine_->lifecycle().Pools(Soon())->front().failing_disks, 1U);
  const auto none = Create("wide", "raid5");
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message(), HasSubstr("excluded as failing: PV"));
  const auto capacity = engine_->volumes().Capacity({}, {{"type", "raid5"}}, Soon());
  EXPECT_EQ(capacity->available, Bytes{});
  EXPECT_THAT(capacity->reason, HasSubstr("excluded as failing: PV"));

  disks_->Say("/dev/a", {});
  EXPECT_TRUE(Ask());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kOk);
  EXPECT_TRUE(Create("wide", "raid5").has_value());
}

// The volumes on it are in danger until it is empty.
TEST_F(UnhealthyDisksTest, AFailingDiskStaysFailingWhileItIsVacated) {
  ASSERT_TRUE(engine_->disks().Evacuate({.disk = Status("/dev/a").pv_uuid}, Soon()).has_value());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kToBeVacated);
  EXPECT_TRUE(Status("/dev/a").leaving);
  disks_->Say("/dev/a", Warns(udev::kReliabilityDegraded));
  EXPECT_TRUE(Ask());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
  EXPECT_TRUE(Status("/dev/a").leaving);
  EXPECT_FALSE(Status("/dev/b").leaving);
}

// Nothing would ever correct such a report.
TEST_F(UnhealthyDisksTest, ReportsAreForgottenWhenNothingPollsTheDisksAnyMore) {
  disks_->Say("/dev/a", Warns(udev::kReliabilityDegraded));
  disks_->Say("/dev/b", Used(100));
  EXPECT_TRUE(Ask());
  EXPECT_EQ(Capacity("linear"), 100U);
  engine_->disks().ForgetHealth();
  EXPECT_EQ(Capacity("linear"), 300U);
  for (const char* node : {"/dev/a", "/dev/b"}) {
    EXPECT_EQ(Status(node).condition, DiskCondition::kOk);
    EXPECT_FALSE(Status(node).health.has_value());
  }
  EXPECT_TRUE(Ask()) << "polling begins again";
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
}

TEST_F(UnhealthyDisksTest, NothingGrowsOntoAFailingDisk) {
  const auto mirror = Create("mirror", "raid1");
  const auto files = Create("files", "linear", 40);
  ASSERT_TRUE(mirror.has_value() && files.has_value());
  const std::string node = *NodesOf(*mirror).begin();
  disks_->Say(node, Warns(udev::kReadOnlyMedia));
  Ask();
  const auto grown = engine_->volumes().Expand(mirror->volume.id, {Bytes{80 * kMiB.value}, {}}, {}, Soon());
  ASSERT_FALSE(grown.has_value());
  EXPECT_EQ(grown.error().code(), Code::kNoSpace);
  EXPECT_THAT(grown.error().message(), HasSubstr("excluded as failing: PV"));
  const auto others = engine_->volumes().Expand(files->volume.id, {Bytes{400 * kMiB.value}, {}}, {}, Soon());
  ASSERT_TRUE(others.has_value()) << others.error().message();
}

TEST_F(UnhealthyDisksTest, OnlyVolumesOnAFailingDiskReportTheCondition) {
  const auto files = Create("files", "linear");
  const auto mirror = Create("mirror", "raid1");  // on the roomiest
  ASSERT_TRUE(mirror.has_value() && files.has_value());
  const std::string node = *NodesOf(*files).begin();
  ASSERT_FALSE(NodesOf(*mirror).contains(node));
  disks_->Say(node, Warns(udev::kSpareLow));
  EXPECT_TRUE(Ask());
  EXPECT_THAT(Reasons(*files), ElementsAre("DiskFailing"));
  EXPECT_THAT(Reasons(*mirror), IsEmpty());
  const Health health = *engine_->volumes().Get(files->volume.id, Soon(), Show::kHealth)->health;
  EXPECT_EQ(health.ailments.front().problem, Problem::kDegraded);
  EXPECT_THAT(health.ailments.front().message, HasSubstr("move them away"));
  disks_->Say(*NodesOf(*mirror).begin(), Warns(udev::kSpareLow));
  EXPECT_TRUE(Ask());
  EXPECT_THAT(Reasons(*mirror), ElementsAre("DiskFailing"));
  disks_->Say(node, {});
  disks_->Say(*NodesOf(*mirror).begin(), {});
  EXPECT_TRUE(Ask());
  EXPECT_THAT(Reasons(*files), IsEmpty());
  EXPECT_THAT(Reasons(*mirror), IsEmpty());
}

TEST_F(UnhealthyDisksTest, AWornDiskIsExcludedButItsVolumesAreHealthy) {
  const auto files = Create("files", "linear");
  ASSERT_TRUE(files.has_value());
  const std::string node = *NodesOf(*files).begin();
  disks_->Say(node, Used(100));
  EXPECT_TRUE(Ask());
  EXPECT_EQ(Status(node).condition, DiskCondition::kWorn);
  EXPECT_THAT(Reasons(*files), IsEmpty());
  EXPECT_EQ(Capacity("linear"), 200U);
  for (const char* all : {"/dev/a", "/dev/b", "/dev/c"}) {
    disks_->Say(all, Used(120));
  }
  EXPECT_TRUE(Ask());
  EXPECT_EQ(Capacity("linear"), 290U) << "all disks are worn";
}

TEST_F(UnhealthyDisksTest, ASilentDiskDelaysNoOtherAndIsNotPolledAgain) {
  disks_->Hang("/dev/a");
  disks_->Say("/dev/a", Warns(udev::kSpareLow));
  disks_->Say("/dev/b", Used(100));
  EXPECT_TRUE(Ask(CallWithin(std::chrono::milliseconds(300))));
  EXPECT_EQ(Status("/dev/b").condition, DiskCondition::kWorn);
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kOk);
  disks_->Say("/dev/b", {});
  EXPECT_TRUE(Ask()) << "a disk with an outstanding answer is not waited for again";
  EXPECT_EQ(disks_->Asked("/dev/a"), 1);
  disks_->GoOn("/dev/a");
  bool heard = false;
  for (int i = 0; i < 200 && !heard; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    heard = Ask();
  }
  EXPECT_TRUE(heard);
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
}

TEST_F(UnhealthyDisksTest, ADiskKeepsItsStateWhileItsHealthIsUnavailable) {
  disks_->Say("/dev/a", Warns(udev::kSpareLow));
  EXPECT_TRUE(Ask());
  disks_->faults.FailAlways("Read /dev/a", Error(Code::kIo, "no answer"));
  EXPECT_FALSE(Ask());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
  disks_->faults.Clear();
  SetMissing(true);
  EXPECT_FALSE(Ask());
  EXPECT_EQ(Status("").condition, DiskCondition::kMissing) << "missing outranks failing";
  SetMissing(false);
  EXPECT_FALSE(Ask());
}

// A dying disk may stop to report its health.
TEST_F(UnhealthyDisksTest, AFailingDiskThatReportsNothingAnyMoreStaysFailing) {
  disks_->Say("/dev/a", Warns(udev::kReliabilityDegraded));
  EXPECT_TRUE(Ask());
  disks_->SayNothing("/dev/a");
  EXPECT_FALSE(Ask());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
  EXPECT_EQ(Capacity("linear"), 200U);
}

TEST_F(UnhealthyDisksTest, DisksOfAnUnreadablePoolKeepTheirState) {
  disks_->Say("/dev/a", Warns(udev::kSpareLow));
  EXPECT_TRUE(Ask());
  lvm_.before.FailNth("Read", 1, Error(Code::kUnavailable, "not now"));
  EXPECT_FALSE(engine_->disks().PollDisks(Soon()).has_value());
  EXPECT_EQ(Status("/dev/a").condition, DiskCondition::kFailing);
}

TEST_F(UnhealthyDisksTest, TheListOfDisksHasTheirHealthReports) {
  udev::Disk disk = fakes::PlainDisk("a", "s1", kGiB);
  udev_.Plug(disk);
  udev::DiskHealth says = Warns(udev::kSpareLow);
  says.temperature = 44;
  disks_->Say("/dev/a", says);
  Ask();
  const auto devices = engine_->disks().Devices(Soon());
  ASSERT_TRUE(devices.has_value());
  ASSERT_EQ(devices->size(), 1U);
  ASSERT_TRUE(devices->front().health.has_value()) << devices->front().words;
  EXPECT_EQ(*devices->front().health, says);
  EXPECT_THAT(devices->front().words, HasSubstr("it is failing: its spare blocks run out"));
}

}  // namespace
}  // namespace quarry::engine
