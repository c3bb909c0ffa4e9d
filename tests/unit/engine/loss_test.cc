// Whether the disks of a volume give its data (JudgeLoss).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using testing::HasSubstr;

// Legs that are all in sync, on disks of which some give an error or do not answer.
class Legs final : public dm::RaidLegsApi {
 public:
  Result<dm::RaidSuperblock> Read(const dm::EraseRange& place) override {
    if (silent.contains(place.pv_uuid)) {
      return Error(Code::kTimeout, "no answer");
    }
    if (foreign.contains(place.pv_uuid)) {
      return Error(Code::kCorrupt, "something else");
    }
    return unreadable.contains(place.pv_uuid) ? ErrnoError("reading", EIO)
                                              : Error(Code::kNotFound, "only zeroes");
  }
  Result<dm::RaidBitmap> ReadBitmap(const dm::EraseRange& /*place*/) override {
    return Error(Code::kNotFound, "only zeroes");
  }
  Status Write(const dm::EraseRange& /*place*/, const dm::RaidSuperblock& /*was*/,
               const dm::RaidStart& /*start*/) override {
    return Ok();
  }

  std::set<std::string> unreadable, silent, foreign;  // PV UUIDs
};

class LossTest : public testing::Test {
 protected:
  LossTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value},
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    const fakes::FakeWorld world{
        .lvm = lvm_, .dm = dm_, .erase = erase_, .mount = mount_, .clock = clock_, .raid_legs = legs_};
    engine_ = std::make_unique<Engine>(
        EngineConfig{.pools = {{.name = "default", .group = "vg0", .reserve = {}}}}, world, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(std::chrono::milliseconds(20000)); }

  // The id of a new volume. Its disks are in disks_, by leg.
  std::string Create(const std::string& type) {
    const auto made = engine_->volumes().Create({.name = type,
                                                 .range = {Bytes{100 * kMiB.value}, {}},
                                                 .capabilities = {{}},
                                                 .parameters = {{"type", type}}},
                                                Soon());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    const auto group = lvm_.Read("vg0", Soon());
    disks_.clear();
    for (const auto& leg :
         lvm::LegPvs(**group, *(*group)->FindLv(lvm::ParseVolumeId(made->volume.id)->lv_name))) {
      disks_.push_back(leg.front());
    }
    return made->volume.id;
  }
  std::string DmUuidOf(const std::string& id) {
    const auto group = lvm_.Read("vg0", Soon());
    return lvm::DmUuid((*group)->uuid, (*group)->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
  }
  // By a change of the group, so that LVM must take the disk back when it returns.
  void Lose(const std::string& disk) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::PhysicalVolume& pv : group.pvs) {
        pv.missing = pv.missing || pv.uuid == disk;
      }
    });
  }
  Loss Judged(const std::string& id) {
    const auto verdict = engine_->volumes().JudgeLoss(id, Soon());
    EXPECT_TRUE(verdict.has_value()) << verdict.error().message();
    words_ = verdict.has_value() ? verdict->words : "";
    return verdict.has_value() ? verdict->loss : Loss::kNone;
  }
  // DeleteLost has the last word.
  Code Refused(const std::string& id) {
    const auto deleted = engine_->volumes().DeleteLost(id, Soon());
    EXPECT_FALSE(deleted.has_value());
    return deleted.has_value() ? Code::kInternal : deleted.error().code();
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  Legs legs_;
  std::vector<std::string> disks_;
  std::string words_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(LossTest, AVolumeIsLostWithoutADiskThatItCannotDoWithout) {
  const std::string mirror = Create("raid1");
  EXPECT_EQ(Judged(mirror), Loss::kNone);
  EXPECT_EQ(Refused(mirror), Code::kPrecondition);
  Lose(disks_[0]);
  EXPECT_EQ(Judged(mirror), Loss::kNone) << "it has another copy";
  Lose(disks_[1]);
  EXPECT_EQ(Judged(mirror), Loss::kLost);
  EXPECT_THAT(words_, HasSubstr("its disk is missing (PV " + disks_[0]));
  EXPECT_THAT(words_, HasSubstr("its disk is missing (PV " + disks_[1]));
  EXPECT_TRUE(engine_->volumes().DeleteLost(mirror, Soon()).has_value());
}

TEST_F(LossTest, AnUnreadableDiskCountsAsAMissingOne) {
  const std::string mirror = Create("raid1");
  legs_.unreadable = {disks_[0]};
  EXPECT_EQ(Judged(mirror), Loss::kNone) << "it has another copy";
  Lose(disks_[1]);
  EXPECT_EQ(Judged(mirror), Loss::kLost);
  EXPECT_THAT(words_, HasSubstr("cannot be read (PV " + disks_[0]));
  legs_.unreadable.clear();
  EXPECT_EQ(Judged(mirror), Loss::kNone);
  EXPECT_EQ(Refused(mirror), Code::kPrecondition);
  legs_.foreign = {disks_[0]};
  EXPECT_EQ(Judged(mirror), Loss::kNone) << "the disk gives what is on it";
  legs_.foreign.clear();
  legs_.unreadable = {disks_[0]};
  dm_.SetRaid(DmUuidOf(mirror),
              dm::RaidStatus{.type = "raid1", .legs = "AD", .in_sync = 1, .total = 1, .action = "idle"});
  EXPECT_EQ(Judged(mirror), Loss::kNone) << "the superblock is bad, and the kernel serves the data";
}

TEST_F(LossTest, ADiskThatDoesNotAnswerProvesNothing) {
  const std::string mirror = Create("raid1");
  Lose(disks_[1]);
  legs_.silent = {disks_[0]};
  const auto verdict = engine_->volumes().JudgeLoss(mirror, Soon());
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code(), Code::kUnavailable);
  EXPECT_THAT(verdict.error().message(), HasSubstr("does not answer"));
  EXPECT_EQ(Refused(mirror), Code::kUnavailable);
}

TEST_F(LossTest, NothingIsLostWhileADiskIsBeingTakenBack) {
  const std::string linear = Create("linear");
  Lose(disks_[0]);
  EXPECT_EQ(Judged(linear), Loss::kLost);
  lvm_.ReturnDisk("vg0", disks_[0]);
  EXPECT_EQ(Judged(linear), Loss::kPassing);
  EXPECT_EQ(Refused(linear), Code::kUnavailable);

  lvm_.before.FailAlways("RestorePv", Error(Code::kTimeout, "in time"));
  (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_EQ(Judged(linear), Loss::kPassing) << "LVM has not answered";
  lvm_.before.Clear();
  lvm_.before.FailAlways("RestorePv", Error(Code::kIo, "refused"));
  (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_EQ(Judged(linear), Loss::kPassing) << "the first refusal may have a passing cause";
  (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_EQ(Judged(linear), Loss::kLost);
  EXPECT_THAT(words_, HasSubstr("refuses"));

  lvm_.before.Clear();
  (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_EQ(Judged(linear), Loss::kNone) << "it was taken back";
  Lose(disks_[0]);
  (void)engine_->upkeep().Repair(RepairCause::kEvent, Soon());
  lvm_.ReturnDisk("vg0", disks_[0]);
  EXPECT_EQ(Judged(linear), Loss::kPassing) << "an earlier refusal does not count";
}

TEST_F(LossTest, ADiskThatTheKernelHasNotOpenedAgainIsBack) {
  const std::string linear = Create("linear");
  dm_.SetOnLostDisk(DmUuidOf(linear), true);
  EXPECT_EQ(Judged(linear), Loss::kPassing) << "its disk is there";
  EXPECT_EQ(Refused(linear), Code::kUnavailable);
  Lose(disks_[0]);
  EXPECT_EQ(Judged(linear), Loss::kLost);
}

TEST_F(LossTest, AnArrayThatTheKernelHasStoppedIsStartedAgain) {
  const std::string mirror = Create("raid1");
  dm_.SetRaid(DmUuidOf(mirror),
              dm::RaidStatus{.type = "raid1", .legs = "DD", .in_sync = 1, .total = 1, .action = "idle"});
  EXPECT_EQ(Judged(mirror), Loss::kPassing);
  EXPECT_EQ(Refused(mirror), Code::kUnavailable);
}

}  // namespace
}  // namespace quarry::engine
