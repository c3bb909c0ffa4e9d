// What the repair loop sees of disks and volumes, and what it is to remember of them. No engine runs here.
#include "engine/repair/observe.h"

#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/layout.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SteadyTime kNow{std::chrono::hours(1)};
constexpr GiveUpPolicy kAfterAMinute{.at_once = false, .after_delay = true, .delay = seconds(60)};

// A group of three disks. pv0 has been missing for 50 s, pv1 for 60 s.
class ObserveMissingTest : public testing::Test {
 protected:
  ObserveMissingTest() {
    for (const size_t i : {0U, 1U}) {
      builder_.group().pvs[i].missing = true;
      builder_.group().pvs[i].device.clear();
    }
  }
  MissingDisks Observe(const GiveUpPolicy& policy) {
    return ObserveMissing(builder_.group(), {{"pv0", kNow - seconds(50)}, {"pv1", kNow - seconds(60)}},
                          policy, kNow);
  }

  GroupBuilder builder_{{10, 10, 10}};
};

TEST_F(ObserveMissingTest, ADiskIsGivenUpOnceItsDelayIsOver) {
  const MissingDisks missing = Observe(kAfterAMinute);
  EXPECT_THAT(missing.all, ElementsAre("pv0", "pv1"));
  EXPECT_THAT(missing.given_up, ElementsAre("pv1"));
  EXPECT_EQ(missing.next, seconds(10)) << "then pv0 is given up";
}

TEST_F(ObserveMissingTest, TheNextDiskIsTheOneThatIsGivenUpFirst) {
  EXPECT_EQ(Observe({.at_once = false, .after_delay = true, .delay = seconds(100)}).next, seconds(40));
}

TEST_F(ObserveMissingTest, AnAdministratorDoesNotWaitForTheDelay) {
  for (const bool after_delay : {false, true}) {
    const MissingDisks missing =
        Observe({.at_once = true, .after_delay = after_delay, .delay = seconds(600)});
    EXPECT_THAT(missing.given_up, ElementsAre("pv0", "pv1"));
    EXPECT_EQ(missing.next, std::nullopt);
  }
}

TEST_F(ObserveMissingTest, WithoutAutomaticRepairNoDiskIsGivenUp) {
  const MissingDisks missing = Observe({.at_once = false, .after_delay = false, .delay = seconds(60)});
  EXPECT_THAT(missing.all, ElementsAre("pv0", "pv1"));
  EXPECT_THAT(missing.given_up, IsEmpty());
  EXPECT_EQ(missing.next, std::nullopt);
}

TEST_F(ObserveMissingTest, ADiskThatLvmHasYetToTakeBackIsPresent) {
  builder_.group().pvs[1].device = "/dev/pv1";
  EXPECT_THAT(Observe(kAfterAMinute).all, ElementsAre("pv0"));
}

// The superblocks of a mirror whose legs agree, or an error in their place.
class FixedLegs final : public dm::RaidLegsApi {
 public:
  Result<dm::RaidSuperblock> Read(const dm::EraseRange& place) override {
    ++reads;
    if (error.has_value()) {
      return *error;
    }
    return dm::RaidSuperblock{
        .legs = 2, .role = roles.at(place.pv_uuid), .events = 5, .failed = {false, false}};
  }
  Result<dm::RaidBitmap> ReadBitmap(const dm::EraseRange& /*place*/) override {
    return Error(Code::kInternal, "an observer reads no bitmap");
  }
  Status Write(const dm::EraseRange& /*place*/, const dm::RaidSuperblock& /*was*/,
               const dm::RaidStart& /*start*/) override {
    ADD_FAILURE() << "an observer writes nothing";
    return Ok();
  }

  std::map<std::string, uint32_t> roles;  // by PV UUID
  std::optional<Error> error;
  int reads = 0;
};

// An active raid1 volume on two of three disks.
class ObserveVolumeTest : public testing::Test {
 protected:
  ObserveVolumeTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value},
                  {{"/dev/a", Extents{50}}, {"/dev/b", Extents{50}}, {"/dev/c", Extents{50}}});
    fakes::Follow(lvm_, dm_);
    const std::string name = "q0123456789abcdef01234567";
    lvm::VolumeTags tags = ReadyTags(name, "mirror", 10);
    tags.profile = Profile::Parse({{"type", "raid1"}}, "default")->Canonical();
    const lvm::Geometry raid1 = *lvm::Geometry::Make({.type = lvm::VolumeType::kRaid1});
    const lvm::Snapshot empty = *lvm_.Read("vg0", Soon());
    const auto placed = lvm::Place(lvm::FreeSpaceOf(*empty), raid1, Extents{10}, *empty);
    EXPECT_TRUE(lvm_.Apply(lvm::CreateLv{.group = "vg0",
                                         .name = name,
                                         .geometry = raid1,
                                         .step = placed->steps.front(),
                                         .tags = lvm::BuildTags(tags),
                                         .wipe = lvm::Wipe::kNone},
                           Soon())
                    .has_value());
    Read();
    const auto pvs = lvm::LegPvs(*catalog_.group, *Volume().lv);
    for (uint32_t leg = 0; leg < pvs.size(); ++leg) {
      legs_.roles[pvs[leg].front()] = leg;
    }
  }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  void Read() { catalog_ = ReadCatalog("default", *lvm_.Read("vg0", Soon())); }
  const Record& Volume() const { return catalog_.records.at(0); }
  std::string PvOf(size_t leg) const { return lvm::LegPvs(*catalog_.group, *Volume().lv).at(leg).front(); }
  static dm::RaidStatus Legs(const std::string& letters, const std::string& action = "idle") {
    return {.type = "raid1", .legs = letters, .in_sync = 100, .total = 100, .action = action};
  }
  void SetMissing(const std::string& pv_uuid) {
    lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::PhysicalVolume& pv : group.pvs) {
        pv.missing = pv.missing || pv.uuid == pv_uuid;
      }
    });
    Read();
  }
  void Deactivate() { EXPECT_TRUE(dm_.RemoveDevice(Volume().DmUuid()).has_value()); }
  VolumeObservation Observe(const std::optional<dm::RaidStatus>& raid, const VolumeMemory& memory,
                            bool disks = false) {
    auto seen = ObserveVolume(Volume(), raid, memory, disks, dm_, legs_);
    EXPECT_TRUE(seen.has_value()) << (seen.has_value() ? "" : seen.error().message());
    return seen.has_value() ? std::move(*seen) : VolumeObservation();
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  FixedLegs legs_;
  Catalog catalog_;
};

TEST_F(ObserveVolumeTest, AHealthyVolumeCostsNoQueryAndChangesNothing) {
  const VolumeObservation seen = Observe(Legs("AA"), {});
  EXPECT_EQ(seen.view.record, &Volume());
  EXPECT_TRUE(seen.view.active);
  EXPECT_EQ(seen.on_lost_disk, std::nullopt);
  EXPECT_FALSE(seen.doubt_changed);
  EXPECT_EQ(dm_.faults.Calls("Find"), 0);
  EXPECT_EQ(dm_.faults.Calls("LiesOnLostDisk"), 0);
  EXPECT_EQ(legs_.reads, 0);
}

TEST_F(ObserveVolumeTest, TheDeviceIsLookedUpWhenDisksMayHaveChanged) {
  dm_.SetOnLostDisk(Volume().DmUuid(), true);
  dm_.SetSuspended(Volume().DmUuid(), true);
  const VolumeObservation seen = Observe(Legs("AA"), {}, true);
  EXPECT_TRUE(seen.view.active);
  EXPECT_TRUE(seen.view.suspended);
  EXPECT_FALSE(seen.view.open);
  EXPECT_TRUE(seen.view.on_lost_disk);
  EXPECT_EQ(seen.on_lost_disk, true);
}

TEST_F(ObserveVolumeTest, TheDeviceOfAVolumeInTroubleIsAlwaysLookedUp) {
  EXPECT_EQ(Observe(Legs("AD"), {}).on_lost_disk, false) << "a leg has failed";
  EXPECT_EQ(Observe(Legs("AA"), {.doubtful = true}).on_lost_disk, false);
  EXPECT_EQ(Observe(Legs("AA"), {.on_lost_disk = true}).on_lost_disk, false) << "the disk is back";
  SetMissing(PvOf(1));
  EXPECT_EQ(Observe(Legs("AA"), {}).on_lost_disk, false) << "a leg is on a missing disk";
}

TEST_F(ObserveVolumeTest, AVolumeThatCannotBeLookedUpIsAnError) {
  for (const char* method : {"Find", "LiesOnLostDisk"}) {
    dm_.faults.FailNth(method, 1, Error(Code::kIo, "no answer"));
    const auto seen = ObserveVolume(Volume(), Legs("AD"), {}, false, dm_, legs_);
    ASSERT_FALSE(seen.has_value()) << method;
    EXPECT_EQ(seen.error().code(), Code::kIo);
  }
}

TEST_F(ObserveVolumeTest, AnInactiveVolumeWithSilentLegsIsDoubtful) {
  SetMissing(PvOf(1));
  Deactivate();
  legs_.error = Error(Code::kTimeout, "the disk does not answer");
  const VolumeObservation seen = Observe(std::nullopt, {});
  EXPECT_FALSE(seen.view.active);
  ASSERT_TRUE(seen.view.doubt.has_value());
  EXPECT_THAT(seen.view.doubt->words, HasSubstr("does not answer"));
  EXPECT_TRUE(seen.doubt_changed);
}

TEST_F(ObserveVolumeTest, ADoubtEndsWhenTheLegsOfAnInactiveVolumeAgree) {
  Deactivate();
  const VolumeObservation seen = Observe(std::nullopt, {.doubtful = true});
  EXPECT_FALSE(seen.view.doubt.has_value());
  EXPECT_TRUE(seen.doubt_changed);
  EXPECT_EQ(legs_.reads, 2);
}

TEST_F(ObserveVolumeTest, AnActiveVolumeIsNotDoubtful) {
  const VolumeObservation seen = Observe(Legs("AA"), {.doubtful = true});
  EXPECT_TRUE(seen.view.active);
  EXPECT_TRUE(seen.doubt_changed);
  EXPECT_EQ(legs_.reads, 0);
}

TEST_F(ObserveVolumeTest, AFailedLegIsTakenBackOnlyIfItsSuperblocksPermitIt) {
  EXPECT_FALSE(Observe(Legs("AD"), {}).view.doubt.has_value());
  legs_.error = Error(Code::kTimeout, "the disk does not answer");
  const VolumeObservation seen = Observe(Legs("AD"), {.doubtful = true});
  ASSERT_TRUE(seen.view.doubt.has_value());
  EXPECT_THAT(seen.view.doubt->words, HasSubstr("does not answer"));
  EXPECT_TRUE(seen.view.active);
  EXPECT_TRUE(seen.doubt_changed) << "it is active: this reason is not remembered";
}

TEST_F(ObserveVolumeTest, AFailedLegOnAPulledDiskNeedsNoSuperblock) {
  dm_.SetOnLostDisk(Volume().DmUuid(), true);
  legs_.error = Error(Code::kTimeout, "the disk does not answer");
  EXPECT_FALSE(Observe(Legs("AD"), {}).view.doubt.has_value());
  EXPECT_EQ(legs_.reads, 0);
}

TEST_F(ObserveVolumeTest, OnlyAScrubNeedsTheInstanceOfTheDevice) {
  const uint64_t instance = *dm_.Instance(Volume().DmUuid());
  ASSERT_NE(instance, 0U);
  EXPECT_EQ(Observe(Legs("AA"), {}).view.instance, 0U);
  EXPECT_EQ(Observe(Legs("AA", "check"), {}).view.instance, instance);
  EXPECT_EQ(Observe(Legs("AA"), {.scrubbing = true}).view.instance, instance);
  dm_.faults.FailNth("Instance", 1, Error(Code::kNotFound, "gone"));
  EXPECT_EQ(Observe(Legs("AA"), {.scrubbing = true}).view.instance, 0U);
}

TEST_F(ObserveVolumeTest, ADeviceThatLeadsToNoDiskProvesThatTheDiskWasPulled) {
  EXPECT_FALSE(ObserveReturned(catalog_, PvOf(0), dm_).pulled);
  EXPECT_THAT(ObserveReturned(catalog_, PvOf(0), dm_).volumes, ElementsAre(Volume().tags.id));
  dm_.SetOnLostDisk(Volume().DmUuid(), true);
  EXPECT_TRUE(ObserveReturned(catalog_, PvOf(0), dm_).pulled);
  dm_.faults.FailNth("LiesOnLostDisk", 1, Error(Code::kIo, "no answer"));
  EXPECT_FALSE(ObserveReturned(catalog_, PvOf(0), dm_).pulled) << "no answer is no proof";
}

TEST_F(ObserveVolumeTest, AVolumeOnOtherDisksProvesNothingAboutAReturnedDisk) {
  dm_.SetOnLostDisk(Volume().DmUuid(), true);
  for (const lvm::PhysicalVolume& pv : catalog_.group->pvs) {
    const ReturnedDisk returned = ObserveReturned(catalog_, pv.uuid, dm_);
    EXPECT_EQ(returned.pulled, legs_.roles.contains(pv.uuid)) << pv.uuid;
    EXPECT_EQ(returned.volumes.empty(), !legs_.roles.contains(pv.uuid)) << pv.uuid;
  }
}

}  // namespace
}  // namespace quarry::engine
