// The promises of LvmApi, as tests of any implementation. The engine is tested on the fake; because of these
// tests, its results hold for LVM too.
//
// A World makes one group, empties it again, and can change its surroundings:
// clang-format off
//   void Reset();                                       // empty, all disks there, nothing open
//   lvm::LvmApi& lvm();
//   std::string group();                                // of kDisks disks with kDiskExtents extents each
//   std::shared_ptr<void> Hold(const std::string& lv);  // holds the LV open until dropped
//   void HideDisk(size_t index);                        // index as in the group's PVs
//   void ShowDisk(size_t index);
//   std::string SpareDisk();                            // path of a blank disk of the same size
// If LVM must not use device-mapper, so that nothing is active and raid is not possible:
//   static constexpr bool kHasDriver = false;
// If there are disks, the differences between LVM's report and the group read from their text:
//   static std::string TextDifference(const lvm::VolumeGroup& report);
// clang-format on
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/layout.h"
#include "lvm/lvm_api.h"
#include "lvm/names.h"

namespace quarry::contract {

inline constexpr size_t kDisks = 6;
inline constexpr Extents kDiskExtents{255};
inline constexpr Bytes kExtentSize{4 * kMiB.value};

inline Call Patient() {
  return CallWithin(std::chrono::minutes(2));
}

template <typename World>
class LvmContract : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared_world_ = std::make_unique<World>(); }
  static void TearDownTestSuite() { shared_world_.reset(); }
  void SetUp() override { world_.Reset(); }

  static constexpr bool HasDriver() {
    if constexpr (requires { World::kHasDriver; }) {
      return World::kHasDriver;
    } else {
      return true;
    }
  }
  static std::vector<lvm::VolumeType> Types() {
    using enum lvm::VolumeType;
    return HasDriver() ? std::vector{kLinear, kStriped, kRaid0, kRaid1, kRaid4, kRaid5, kRaid6, kRaid10}
                       : std::vector{kLinear, kStriped, kRaid0};
  }

  lvm::LvmApi& Lvm() { return world_.lvm(); }
  std::string Group() { return world_.group(); }

  lvm::Snapshot Now() {
    auto read = Lvm().Read(Group(), Patient());
    EXPECT_TRUE(read.has_value()) << read.error().message();
    if (!read.has_value()) {
      return std::make_shared<const lvm::VolumeGroup>();
    }
    if constexpr (requires { World::TextDifference(**read); }) {
      EXPECT_EQ(World::TextDifference(**read), "")
          << "the parsed text on the disks differs from LVM's report";
    }
    return *read;
  }

  static lvm::Geometry Make(lvm::VolumeType type) { return lvm::Geometry::Make({.type = type}).value(); }

  // Creates `name` where the layout says, and returns the plan.
  lvm::Placement CreatePlanned(const std::string& name, const lvm::Geometry& geometry, uint64_t extents,
                               const std::vector<std::string>& tags = {}) {
    const lvm::Snapshot before = Now();
    auto plan = lvm::Place(lvm::FreeSpaceOf(*before), geometry, Extents{extents}, *before);
    EXPECT_TRUE(plan.has_value()) << plan.error().message();
    bool first = true;
    for (const lvm::PlacementStep& step : plan->steps) {
      const Status done = first ? Lvm().Apply(Spec(name, geometry, step, tags), Patient())
                                : Lvm().Apply(lvm::ExtendLv{Group(), name, geometry, step}, Patient());
      EXPECT_TRUE(done.has_value()) << done.error().message();
      first = false;
    }
    return std::move(*plan);
  }

  lvm::CreateLv Spec(const std::string& name, const lvm::Geometry& geometry, const lvm::PlacementStep& step,
                     const std::vector<std::string>& tags = {}) {
    return {.group = Group(),
            .name = name,
            .geometry = geometry,
            .step = step,
            .tags = tags,
            .wipe = lvm::Wipe::kSignaturesAndFirstBlock,
            .assume_in_sync = true};
  }

  std::string CreateSmall(const std::vector<std::string>& tags = {}) {
    const std::string name = lvm::NewLvName();
    CreatePlanned(name, Make(lvm::VolumeType::kLinear), 2, tags);
    return name;
  }
  Status Remove(const std::string& name) {
    const Status off =
        HasDriver() ? Lvm().Apply(lvm::DeactivateLv{Group(), name, 0}, Patient()) : Status(Ok());
    return off.has_value() ? Lvm().Apply(lvm::RemoveLvs{Group(), {name}, 0}, Patient()) : off;
  }

  void ExpectError(const Status& status, Code code) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code(), code) << status.error().message();
  }

  // Only the kernel's view may differ.
  static void ExpectSameMetadata(const lvm::VolumeGroup& a, const lvm::VolumeGroup& b) {
    EXPECT_EQ(a.seqno, b.seqno);
    EXPECT_EQ(a.free_count, b.free_count);
    EXPECT_EQ(a.lvs.size(), b.lvs.size());
  }

  inline static std::unique_ptr<World> shared_world_;
  World& world_ = *shared_world_;
};

TYPED_TEST_SUITE_P(LvmContract);

// Skips a test that needs device-mapper where there is none.
#define QUARRY_NEEDS_DRIVER()                           \
  if constexpr (!LvmContract<TypeParam>::HasDriver()) { \
    GTEST_SKIP() << "needs device-mapper";              \
  }

TYPED_TEST_P(LvmContract, AnAbsentGroupIsNotFound) {
  const auto read = this->Lvm().Read("nosuchgroup", Patient());
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), Code::kNotFound) << read.error().message();
}

TYPED_TEST_P(LvmContract, AnEmptyGroupIsAllFree) {
  const lvm::Snapshot group = this->Now();
  EXPECT_EQ(group->name, this->Group());
  EXPECT_EQ(group->uuid.size(), 38U);
  EXPECT_EQ(group->extent_size, kExtentSize);
  ASSERT_EQ(group->pvs.size(), kDisks);
  for (const lvm::PhysicalVolume& pv : group->pvs) {
    EXPECT_EQ(pv.extent_count, kDiskExtents);
    EXPECT_EQ(pv.free, (std::vector<lvm::ExtentRange>{{{0}, kDiskExtents}}));
    EXPECT_TRUE(pv.allocatable);
    EXPECT_FALSE(pv.missing);
    EXPECT_FALSE(pv.device.empty());
    EXPECT_GE(pv.pe_start, kMiB);
    EXPECT_GT(pv.metadata_free.value, 0U);
    EXPECT_GE(pv.metadata_size, pv.metadata_free);
  }
  EXPECT_EQ(group->free_count, (Extents{kDisks * kDiskExtents.value}));
  EXPECT_TRUE(group->lvs.empty());
}

TYPED_TEST_P(LvmContract, EveryTypeIsMadeExactlyWhereThePlanSays) {
  for (const lvm::VolumeType type : this->Types()) {
    SCOPED_TRACE(lvm::TypeName(type));
    const std::string name = lvm::NewLvName();
    const lvm::Geometry geometry = this->Make(type);
    const lvm::Placement plan = this->CreatePlanned(name, geometry, 6 * geometry.data_legs());
    const lvm::Snapshot group = this->Now();
    const lvm::LogicalVolume* lv = group->FindLv(name);
    ASSERT_NE(lv, nullptr);
    EXPECT_EQ(lv->active, this->HasDriver());
    EXPECT_FALSE(lv->hidden);
    EXPECT_TRUE(lv->health.empty() || !this->HasDriver()) << lv->health;
    EXPECT_EQ(lv->segment_type, lvm::TypeName(type));
    EXPECT_EQ(lv->size, ToBytes({6 * geometry.data_legs()}, kExtentSize));
    EXPECT_EQ(lv->segments.front().data_stripes, geometry.data_legs());
    EXPECT_EQ(lv->sync_percent.has_value(), geometry.has_metadata());
    EXPECT_EQ(lvm::SharedPv(*group, *lv), std::nullopt);
    const auto read = lvm::GeometryOf(*group, *lv);
    ASSERT_TRUE(read.has_value()) << read.error().message();
    EXPECT_EQ(read->Describe(), geometry.Describe());
    EXPECT_EQ(read->stripe_size(), geometry.stripe_size());
    for (const lvm::LogicalVolume& one : group->lvs) {
      EXPECT_EQ(one.independent, !one.hidden) << one.name;
    }
    const Status verified = lvm::VerifyPlacement(*group, *lv, plan);
    EXPECT_TRUE(verified.has_value()) << verified.error().message();
    const Status removed = this->Remove(name);
    EXPECT_TRUE(removed.has_value()) << removed.error().message();
  }
  const lvm::Snapshot group = this->Now();
  EXPECT_TRUE(group->lvs.empty());
  EXPECT_EQ(group->free_count, group->extent_count);
}

TYPED_TEST_P(LvmContract, EveryTypeGrowsExactlyWhereThePlanSays) {
  for (const lvm::VolumeType type : this->Types()) {
    SCOPED_TRACE(lvm::TypeName(type));
    const std::string name = lvm::NewLvName();
    const lvm::Geometry geometry = this->Make(type);
    this->CreatePlanned(name, geometry, 3 * geometry.data_legs());
    const lvm::Snapshot before = this->Now();
    const lvm::LogicalVolume* lv = before->FindLv(name);
    ASSERT_NE(lv, nullptr);
    const auto plan = lvm::PlaceGrowth(lvm::FreeSpaceOf(*before), geometry, *before, *lv,
                                       Extents{4 * geometry.data_legs()});
    ASSERT_TRUE(plan.has_value()) << plan.error().message();
    for (const lvm::PlacementStep& step : plan->steps) {
      const Status done = this->Lvm().Apply(lvm::ExtendLv{this->Group(), name, geometry, step}, Patient());
      ASSERT_TRUE(done.has_value()) << done.error().message();
    }
    const lvm::Snapshot after = this->Now();
    lv = after->FindLv(name);
    ASSERT_NE(lv, nullptr);
    EXPECT_EQ(lv->size, ToBytes({7 * geometry.data_legs()}, kExtentSize));
    EXPECT_EQ(lv->active, this->HasDriver());
    const Status verified = lvm::VerifyPlacement(*after, *lv, *plan);
    EXPECT_TRUE(verified.has_value()) << verified.error().message();
    const Status removed = this->Remove(name);
    EXPECT_TRUE(removed.has_value()) << removed.error().message();
  }
}

TYPED_TEST_P(LvmContract, ALinearVolumeMayUseSeveralRangesOfSeveralDisks) {
  const std::string name = lvm::NewLvName();
  const lvm::Snapshot before = this->Now();
  const std::string& a = before->pvs[0].device;
  const std::string& b = before->pvs[1].device;
  const Status created =
      this->Lvm().Apply(this->Spec(name, this->Make(lvm::VolumeType::kLinear),
                                   {Extents{12}, "normal", {a + ":3-6:10-11", b + ":20-25"}}),
                        Patient());
  ASSERT_TRUE(created.has_value()) << created.error().message();
  const lvm::Snapshot group = this->Now();
  std::vector<lvm::ExtentRange> on_a;
  std::vector<lvm::ExtentRange> on_b;
  for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(*group, *group->FindLv(name))) {
    (range.pv_uuid == before->pvs[0].uuid ? on_a : on_b).push_back(range.range);
  }
  EXPECT_THAT(on_a, ::testing::UnorderedElementsAre(lvm::ExtentRange{{3}, {4}}, lvm::ExtentRange{{10}, {2}}));
  EXPECT_THAT(on_b, ::testing::ElementsAre(lvm::ExtentRange{{20}, {6}}));
}

TYPED_TEST_P(LvmContract, ATakenNameIsRefusedAndNothingChanges) {
  const std::string name = this->CreateSmall();
  const lvm::Snapshot before = this->Now();
  const Status again =
      this->Lvm().Apply(this->Spec(name, this->Make(lvm::VolumeType::kLinear),
                                   {Extents{1}, "contiguous", {before->pvs[3].device + ":0-0"}}),
                        Patient());
  this->ExpectError(again, Code::kAlreadyExists);
  this->ExpectSameMetadata(*before, *this->Now());
}

TYPED_TEST_P(LvmContract, ExtentsInUseAreRefusedAndNothingChanges) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = lvm::NewLvName();
  const lvm::Placement plan = this->CreatePlanned(name, this->Make(lvm::VolumeType::kLinear), 10);
  const lvm::Snapshot before = this->Now();
  const Status overlapping = this->Lvm().Apply(
      this->Spec(lvm::NewLvName(), this->Make(lvm::VolumeType::kLinear), plan.steps.front()), Patient());
  this->ExpectError(overlapping, Code::kNoSpace);
  lvm::PlacementStep raid{Extents{10}, "contiguous", {}};
  for (const lvm::PhysicalVolume& pv : before->pvs) {
    if (raid.pv_arguments.size() < 2) {
      raid.pv_arguments.push_back(pv.device + ":0-9");  // one extent short: the metadata takes one
    }
  }
  this->ExpectError(
      this->Lvm().Apply(this->Spec(lvm::NewLvName(), this->Make(lvm::VolumeType::kRaid1), raid), Patient()),
      Code::kNoSpace);
  this->ExpectSameMetadata(*before, *this->Now());
}

TYPED_TEST_P(LvmContract, ATooLargeVolumeIsRefusedAndNothingChanges) {
  const std::string name = this->CreateSmall();
  const lvm::Snapshot before = this->Now();
  const std::string& device = before->pvs[5].device;
  this->ExpectError(this->Lvm().Apply(this->Spec(lvm::NewLvName(), this->Make(lvm::VolumeType::kLinear),
                                                 {Extents{256}, "contiguous", {device}}),
                                      Patient()),
                    Code::kNoSpace);
  this->ExpectError(
      this->Lvm().Apply(
          lvm::ExtendLv{
              this->Group(), name, this->Make(lvm::VolumeType::kLinear), {Extents{256}, "normal", {device}}},
          Patient()),
      Code::kNoSpace);
  this->ExpectSameMetadata(*before, *this->Now());
}

TYPED_TEST_P(LvmContract, ADiskThatIsNotInTheGroupIsAReasonToLookAgain) {
  this->ExpectError(this->Lvm().Apply(this->Spec(lvm::NewLvName(), this->Make(lvm::VolumeType::kLinear),
                                                 {Extents{1}, "contiguous", {"/dev/nosuchdisk:0-0"}}),
                                      Patient()),
                    Code::kUnavailable);
}

TYPED_TEST_P(LvmContract, AbsentVolumesAreNotFound) {
  const std::string name = lvm::NewLvName();
  const lvm::PlacementStep step{Extents{1}, "normal", {this->Now()->pvs[0].device}};
  this->ExpectError(
      this->Lvm().Apply(lvm::ExtendLv{this->Group(), name, this->Make(lvm::VolumeType::kLinear), step},
                        Patient()),
      Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::ChangeTags{this->Group(), name, {"quarry.x"}, {}}, Patient()),
                    Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::ActivateLvs{this->Group(), {name}}, Patient()), Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, 0}, Patient()), Code::kNotFound);
  EXPECT_TRUE(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, Patient()).has_value());
}

TYPED_TEST_P(LvmContract, EverythingInAnAbsentGroupIsNotFound) {
  const lvm::Geometry linear = this->Make(lvm::VolumeType::kLinear);
  const lvm::PlacementStep step{Extents{1}, "normal", {}};
  lvm::CreateLv spec = this->Spec("qx", linear, step);
  spec.group = "nosuchgroup";
  this->ExpectError(this->Lvm().Apply(spec, Patient()), Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::ExtendLv{"nosuchgroup", "qx", linear, step}, Patient()),
                    Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{"nosuchgroup", {"qx"}, 0}, Patient()), Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::ChangeTags{"nosuchgroup", "qx", {"t"}, {}}, Patient()),
                    Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::ActivateLvs{"nosuchgroup", {"qx"}}, Patient()), Code::kNotFound);
  this->ExpectError(this->Lvm().Apply(lvm::DeactivateLv{"nosuchgroup", "qx", 0}, Patient()), Code::kNotFound);
}

TYPED_TEST_P(LvmContract, NamesThatSelectMoreThanOneThingAreRefused) {
  const std::string name = this->CreateSmall({"quarry.ready"});
  this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {"@quarry.ready"}, 0}, Patient()),
                    Code::kInvalidArgument);
  this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {""}, 0}, Patient()),
                    Code::kInvalidArgument);
  this->ExpectError(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), "--all", 0}, Patient()),
                    Code::kInvalidArgument);
  EXPECT_NE(this->Now()->FindLv(name), nullptr);
}

TYPED_TEST_P(LvmContract, TagsChangeInOneCommit) {
  const std::string name = this->CreateSmall({std::string(lvm::kCreatingTag)});
  const lvm::Snapshot before = this->Now();
  EXPECT_THAT(before->FindLv(name)->tags, ::testing::ElementsAre(lvm::kCreatingTag));
  lvm::VolumeTags tags;
  tags.id = lvm::VolumeId("pool", name);
  tags.co_name = "caf\xC3\xA9 \xF0\x9F\xAA\xA8, 100 %";
  tags.size = kMiB;
  tags.profile = "type=linear";
  tags.access = "block";
  tags.erase = "zero";
  const Status changed = this->Lvm().Apply(
      lvm::ChangeTags{this->Group(), name, lvm::BuildTags(tags), {std::string(lvm::kCreatingTag)}},
      Patient());
  ASSERT_TRUE(changed.has_value()) << changed.error().message();
  const lvm::Snapshot after = this->Now();
  EXPECT_EQ(after->seqno, before->seqno + 1);
  EXPECT_THAT(after->FindLv(name)->tags, ::testing::UnorderedElementsAreArray(lvm::BuildTags(tags)));
  const auto parsed = lvm::ParseTags(after->FindLv(name)->tags);
  ASSERT_TRUE(parsed.has_value() && parsed->has_value());
  EXPECT_EQ((*parsed)->co_name, tags.co_name);
}

TYPED_TEST_P(LvmContract, AddingATagTwiceAndRemovingAMissingOneIsOk) {
  const std::string name = this->CreateSmall({"a", "b"});
  EXPECT_TRUE(
      this->Lvm().Apply(lvm::ChangeTags{this->Group(), name, {"a", "c"}, {"nosuch"}}, Patient()).has_value());
  EXPECT_TRUE(this->Lvm().Apply(lvm::ChangeTags{this->Group(), name, {}, {}}, Patient()).has_value());
  EXPECT_THAT(this->Now()->FindLv(name)->tags, ::testing::UnorderedElementsAre("a", "b", "c"));
}

TYPED_TEST_P(LvmContract, TagsOfACreateAreCopiedToMetadataOnlyAndStayThere) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = lvm::NewLvName();
  this->CreatePlanned(name, this->Make(lvm::VolumeType::kRaid1), 2, {"quarry.creating"});
  ASSERT_TRUE(
      this->Lvm()
          .Apply(lvm::ChangeTags{this->Group(), name, {"quarry.ready"}, {"quarry.creating"}}, Patient())
          .has_value());
  const lvm::Snapshot group = this->Now();
  EXPECT_THAT(group->FindLv(name)->tags, ::testing::ElementsAre("quarry.ready"));
  EXPECT_THAT(group->FindLv(name + "_rimage_0")->tags, ::testing::IsEmpty());
  EXPECT_THAT(group->FindLv(name + "_rmeta_0")->tags, ::testing::ElementsAre("quarry.creating"));
  EXPECT_TRUE(group->FindLv(name + "_rmeta_0")->hidden);
}

TYPED_TEST_P(LvmContract, CreationTimeAndRecoveryRateStayWithAVolume) {
  QUARRY_NEEDS_DRIVER();
  const lvm::Geometry geometry = this->Make(lvm::VolumeType::kRaid1);
  const lvm::Snapshot before = this->Now();
  const auto plan = lvm::Place(lvm::FreeSpaceOf(*before), geometry, Extents{4}, *before);
  ASSERT_TRUE(plan.has_value());
  lvm::CreateLv spec = this->Spec(lvm::NewLvName(), geometry, plan->steps.front());
  spec.max_recovery_rate = kMiB;
  const Status made = this->Lvm().Apply(spec, Patient());
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const auto rate = [&] { return this->Now()->FindLv(spec.name)->segments.front().max_recovery_rate; };
  EXPECT_EQ(rate(), kMiB);
  const auto now = static_cast<uint64_t>(std::time(nullptr));
  EXPECT_LE(this->Now()->FindLv(spec.name)->created, now);
  EXPECT_GE(this->Now()->FindLv(spec.name)->created + 600, now);
  for (const Bytes wanted : {Bytes{2 * kMiB.value}, Bytes{0}, Bytes{0}}) {
    const Status set = this->Lvm().Apply(lvm::LimitRecovery{this->Group(), {spec.name}, wanted}, Patient());
    ASSERT_TRUE(set.has_value()) << set.error().message();
    EXPECT_EQ(rate(), wanted);
  }
}

TYPED_TEST_P(LvmContract, ActivationIsIdempotentAndNoCommit) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = lvm::NewLvName();
  this->CreatePlanned(name, this->Make(lvm::VolumeType::kRaid1), 2);
  const lvm::Snapshot before = this->Now();
  EXPECT_TRUE(this->Lvm().Apply(lvm::ActivateLvs{this->Group(), {name}}, Patient()).has_value());
  EXPECT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, 0}, Patient()).has_value());
  EXPECT_FALSE(this->Now()->FindLv(name)->active);
  EXPECT_TRUE(this->Now()->FindLv(name)->sync_action.empty());
  EXPECT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, 0}, Patient()).has_value());
  EXPECT_TRUE(this->Lvm().Apply(lvm::ActivateLvs{this->Group(), {name}}, Patient()).has_value());
  EXPECT_TRUE(this->Now()->FindLv(name)->active);
  this->ExpectSameMetadata(*before, *this->Now());
}

TYPED_TEST_P(LvmContract, ActivatesEveryVolumeThatItCan) {
  QUARRY_NEEDS_DRIVER();
  const std::string one = this->CreateSmall();
  const std::string two = this->CreateSmall();
  ASSERT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), one, 0}, Patient()).has_value());
  ASSERT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), two, 0}, Patient()).has_value());
  this->ExpectError(
      this->Lvm().Apply(lvm::ActivateLvs{this->Group(), {one, lvm::NewLvName(), two}}, Patient()),
      Code::kNotFound);
  EXPECT_TRUE(this->Now()->FindLv(one)->active);
  EXPECT_TRUE(this->Now()->FindLv(two)->active);
  EXPECT_TRUE(this->Lvm().Apply(lvm::ActivateLvs{this->Group(), {one, two}}, Patient()).has_value());
}

TYPED_TEST_P(LvmContract, AnInactiveVolumeGrowsAndStaysInactive) {
  const std::string name = this->CreateSmall();
  ASSERT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, 0}, Patient()).has_value());
  const lvm::Snapshot before = this->Now();
  const Status grown =
      this->Lvm().Apply(lvm::ExtendLv{this->Group(),
                                      name,
                                      this->Make(lvm::VolumeType::kLinear),
                                      {Extents{3}, "normal", {before->pvs[4].device + ":7-9"}}},
                        Patient());
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  const lvm::Snapshot after = this->Now();
  EXPECT_EQ(after->FindLv(name)->size, ToBytes({5}, kExtentSize));
  EXPECT_FALSE(after->FindLv(name)->active);
}

TYPED_TEST_P(LvmContract, DeactivatesOnlyAtTheGivenSequenceNumber) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = this->CreateSmall();
  const uint64_t seqno = this->Now()->seqno;
  EXPECT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, seqno + 1}, Patient()).has_value());
  EXPECT_TRUE(this->Now()->FindLv(name)->active) << "the group has changed";
  EXPECT_TRUE(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, seqno}, Patient()).has_value());
  EXPECT_FALSE(this->Now()->FindLv(name)->active);
  EXPECT_EQ(this->Now()->seqno, seqno);
  EXPECT_TRUE(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, Patient()).has_value());
}

TYPED_TEST_P(LvmContract, AnOpenVolumeIsNeitherDeactivatedNorRemoved) {
  QUARRY_NEEDS_DRIVER();
  for (const lvm::VolumeType type : {lvm::VolumeType::kLinear, lvm::VolumeType::kRaid1}) {
    const std::string name = lvm::NewLvName();
    this->CreatePlanned(name, this->Make(type), 2);
    const lvm::Snapshot before = this->Now();
    {
      const std::shared_ptr<void> holder = this->world_.Hold(name);
      this->ExpectError(this->Lvm().Apply(lvm::DeactivateLv{this->Group(), name, 0}, Patient()),
                        Code::kPrecondition);
      this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, Patient()),
                        Code::kPrecondition);
      const lvm::Snapshot after = this->Now();
      this->ExpectSameMetadata(*before, *after);
      ASSERT_NE(after->FindLv(name), nullptr);
      EXPECT_TRUE(after->FindLv(name)->active);
    }
    const Status removed = this->Remove(name);
    EXPECT_TRUE(removed.has_value()) << removed.error().message();
  }
}

TYPED_TEST_P(LvmContract, RemovingTakesAllPartsAndMayBeRepeated) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = lvm::NewLvName();
  const lvm::Snapshot empty = this->Now();
  this->CreatePlanned(name, this->Make(lvm::VolumeType::kRaid5), 4);
  EXPECT_GT(this->Now()->lvs.size(), 1U);
  this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, Patient()),
                    Code::kPrecondition);
  EXPECT_NE(this->Now()->FindLv(name), nullptr) << "the volume is active";
  ASSERT_TRUE(this->Remove(name).has_value());
  const lvm::Snapshot after = this->Now();
  EXPECT_TRUE(after->lvs.empty());
  EXPECT_EQ(after->free_count, empty->free_count);
  EXPECT_GT(after->seqno, empty->seqno);
  EXPECT_TRUE(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, Patient()).has_value());
  EXPECT_EQ(this->Now()->seqno, after->seqno);
}

TYPED_TEST_P(LvmContract, RemovingLeavesVolumesOfSimilarNamesAlone) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = lvm::NewLvName();
  this->CreatePlanned(name, this->Make(lvm::VolumeType::kLinear), 1);
  this->CreatePlanned(name + "2", this->Make(lvm::VolumeType::kRaid1), 1);
  ASSERT_TRUE(this->Remove(name).has_value());
  const lvm::Snapshot group = this->Now();
  EXPECT_EQ(group->FindLv(name), nullptr);
  EXPECT_NE(group->FindLv(name + "2"), nullptr);
  EXPECT_NE(group->FindLv(name + "2_rimage_1"), nullptr);
}

TYPED_TEST_P(LvmContract, ASpentDeadlineOrAStopDoesNothing) {
  const std::string name = this->CreateSmall();
  const lvm::Snapshot before = this->Now();
  std::stop_source stop;
  stop.request_stop();
  const Call stopped{.stop = stop.get_token()};
  const Call late{.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1)};
  this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, late), Code::kTimeout);
  this->ExpectError(this->Lvm().Apply(lvm::RemoveLvs{this->Group(), {name}, 0}, stopped), Code::kCancelled);
  EXPECT_EQ(this->Lvm().Read(this->Group(), late).error().code(), Code::kTimeout);
  EXPECT_EQ(this->Lvm().Read(this->Group(), stopped).error().code(), Code::kCancelled);
  this->ExpectSameMetadata(*before, *this->Now());
}

TYPED_TEST_P(LvmContract, AMissingDiskStopsGrowthButNotTheRest) {
  QUARRY_NEEDS_DRIVER();
  const std::string mirror = lvm::NewLvName();
  const lvm::Geometry raid1 = this->Make(lvm::VolumeType::kRaid1);
  const lvm::Geometry linear = this->Make(lvm::VolumeType::kLinear);
  const lvm::Snapshot whole = this->Now();
  const auto at = [&](size_t disk, const char* range) { return whole->pvs[disk].device + range; };
  ASSERT_TRUE(
      this->Lvm()
          .Apply(this->Spec(mirror, raid1, {Extents{4}, "contiguous", {at(0, ":0-4"), at(1, ":0-4")}}),
                 Patient())
          .has_value());
  const std::string lost = whole->pvs[1].uuid;
  this->world_.HideDisk(1);

  const lvm::Snapshot degraded = this->Now();
  EXPECT_EQ(degraded->MissingPvs(), 1U);
  ASSERT_NE(degraded->FindPv(lost), nullptr);
  EXPECT_TRUE(degraded->FindPv(lost)->missing);
  EXPECT_TRUE(degraded->FindPv(lost)->device.empty());
  EXPECT_TRUE(degraded->FindLv(mirror)->partial);
  EXPECT_THAT(lvm::LegPvs(*degraded, *degraded->FindLv(mirror))[1], ::testing::ElementsAre(lost));
  EXPECT_FALSE(lvm::FreeSpaceOf(*degraded).blocked.empty());
  this->ExpectError(
      this->Lvm().Apply(this->Spec(lvm::NewLvName(), linear, {Extents{1}, "contiguous", {at(3, ":0-0")}}),
                        Patient()),
      Code::kUnavailable);
  this->ExpectError(
      this->Lvm().Apply(
          lvm::ExtendLv{this->Group(), mirror, raid1, {Extents{1}, "cling", {at(0, ":9-9"), at(3, ":9-9")}}},
          Patient()),
      Code::kUnavailable);
  EXPECT_TRUE(this->Lvm().Apply(lvm::ChangeTags{this->Group(), mirror, {"seen"}, {}}, Patient()).has_value());
  const Status removed = this->Remove(mirror);
  EXPECT_TRUE(removed.has_value()) << removed.error().message();
  this->world_.ShowDisk(1);
}

TYPED_TEST_P(LvmContract, AnUnchangedReturnedDiskIsWholeAgain) {
  this->world_.HideDisk(2);
  EXPECT_EQ(this->Now()->MissingPvs(), 1U);
  this->world_.ShowDisk(2);
  EXPECT_EQ(this->Now()->MissingPvs(), 0U);
  this->CreateSmall();
}

TYPED_TEST_P(LvmContract, ABlankDiskIsAddedInOneCommitAndCanBeUsed) {
  const lvm::Snapshot before = this->Now();
  const std::string device = this->world_.SpareDisk();
  const Status added = this->Lvm().Apply(lvm::AddPv{.group = this->Group(), .device = device}, Patient());
  ASSERT_TRUE(added.has_value()) << added.error().message();
  const lvm::Snapshot after = this->Now();
  ASSERT_EQ(after->pvs.size(), before->pvs.size() + 1);
  EXPECT_EQ(after->seqno, before->seqno + 1);
  EXPECT_GT(after->free_count.value, before->free_count.value);
  const lvm::PhysicalVolume& joined = after->pvs.back();
  EXPECT_GE(joined.metadata_size.value, lvm::kMetadataSize.value - kMiB.value) << "space for 10,000 volumes";
  const std::string name = lvm::NewLvName();
  const lvm::PlacementStep step{Extents{3}, "contiguous", {joined.device + ":2-4"}};
  const Status made =
      this->Lvm().Apply(this->Spec(name, this->Make(lvm::VolumeType::kLinear), step), Patient());
  EXPECT_TRUE(made.has_value()) << made.error().message();
  this->ExpectError(this->Lvm().Apply(lvm::AddPv{.group = this->Group(), .device = device}, Patient()),
                    Code::kPrecondition);
  EXPECT_EQ(this->Now()->pvs.size(), after->pvs.size());
}

TYPED_TEST_P(LvmContract, ADiskIsAddedAlsoWhileAnotherIsMissing) {
  const std::string device = this->world_.SpareDisk();
  this->world_.HideDisk(2);
  const Status added = this->Lvm().Apply(lvm::AddPv{.group = this->Group(), .device = device}, Patient());
  EXPECT_TRUE(added.has_value()) << added.error().message();
  EXPECT_EQ(this->Now()->pvs.size(), kDisks + 1);
  EXPECT_EQ(this->Now()->MissingPvs(), 1U);
  this->world_.ShowDisk(2);
  EXPECT_EQ(this->Now()->MissingPvs(), 0U) << "the disk held nothing";
}

// Callers check the disk first; this is the safety net behind that check.
TYPED_TEST_P(LvmContract, ADiskWithASignatureIsNotAdded) {
  const std::string device = this->world_.SpareDisk();
  const int fd = open(device.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    GTEST_SKIP() << "the fake has no bytes";
  }
  const std::string version("\1\0\0\0\xFF\3\0\0", 8);  // of a swap area: 1, and some pages
  const std::string magic = "SWAPSPACE2";
  ASSERT_EQ(pwrite(fd, version.data(), version.size(), 1024), static_cast<ssize_t>(version.size()));
  ASSERT_EQ(pwrite(fd, magic.data(), magic.size(), 4086), static_cast<ssize_t>(magic.size()));
  ASSERT_EQ(fsync(fd), 0);
  this->ExpectError(this->Lvm().Apply(lvm::AddPv{.group = this->Group(), .device = device}, Patient()),
                    Code::kPrecondition);
  EXPECT_EQ(this->Now()->pvs.size(), kDisks);
  std::string now(magic.size(), '\0');
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_EQ(pread(fd, now.data(), now.size(), 4086), static_cast<ssize_t>(now.size()));
  EXPECT_EQ(now, magic);
  close(fd);
}

TYPED_TEST_P(LvmContract, NoDiskIsAddedToAnAbsentGroup) {
  const std::string device = this->world_.SpareDisk();
  this->ExpectError(this->Lvm().Apply(lvm::AddPv{.group = "nosuchgroup", .device = device}, Patient()),
                    Code::kNotFound);
}

TYPED_TEST_P(LvmContract, VersionIsANumber) {
  const auto version = this->Lvm().Version("vg", Patient());
  ASSERT_TRUE(version.has_value()) << version.error().message();
  EXPECT_THAT(*version, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

REGISTER_TYPED_TEST_SUITE_P(LvmContract, AnAbsentGroupIsNotFound, AnEmptyGroupIsAllFree,
                            EveryTypeIsMadeExactlyWhereThePlanSays, EveryTypeGrowsExactlyWhereThePlanSays,
                            ALinearVolumeMayUseSeveralRangesOfSeveralDisks,
                            ATakenNameIsRefusedAndNothingChanges, ExtentsInUseAreRefusedAndNothingChanges,
                            ATooLargeVolumeIsRefusedAndNothingChanges,
                            ADiskThatIsNotInTheGroupIsAReasonToLookAgain, AbsentVolumesAreNotFound,
                            EverythingInAnAbsentGroupIsNotFound, NamesThatSelectMoreThanOneThingAreRefused,
                            TagsChangeInOneCommit, AddingATagTwiceAndRemovingAMissingOneIsOk,
                            TagsOfACreateAreCopiedToMetadataOnlyAndStayThere,
                            CreationTimeAndRecoveryRateStayWithAVolume, ActivationIsIdempotentAndNoCommit,
                            ActivatesEveryVolumeThatItCan, AnInactiveVolumeGrowsAndStaysInactive,
                            AnOpenVolumeIsNeitherDeactivatedNorRemoved,
                            DeactivatesOnlyAtTheGivenSequenceNumber, RemovingTakesAllPartsAndMayBeRepeated,
                            RemovingLeavesVolumesOfSimilarNamesAlone, ASpentDeadlineOrAStopDoesNothing,
                            AMissingDiskStopsGrowthButNotTheRest, AnUnchangedReturnedDiskIsWholeAgain,
                            ABlankDiskIsAddedInOneCommitAndCanBeUsed, ADiskIsAddedAlsoWhileAnotherIsMissing,
                            ADiskWithASignatureIsNotAdded, NoDiskIsAddedToAnAbsentGroup, VersionIsANumber);

}  // namespace quarry::contract
