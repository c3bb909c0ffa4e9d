#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm {
namespace {

using ::testing::AllOf;
using testing::Apply;
using ::testing::ElementsAre;
using testing::ExpectSound;
using testing::GroupOf;
using testing::GroupOfSizes;
using ::testing::HasSubstr;
using testing::MakeGeometry;
using testing::Runs;
using enum VolumeType;

uint64_t Max(const VolumeGroup& group, const Geometry& geometry) {
  return MaxExtents(FreeSpaceOf(group), geometry).value;
}

Placement MustPlace(const VolumeGroup& group, const Geometry& geometry, uint64_t size) {
  const FreeSpace space = FreeSpaceOf(group);
  auto plan = Place(space, geometry, {size}, group);
  EXPECT_TRUE(plan.has_value()) << plan.error().message();
  if (plan.has_value()) {
    ExpectSound(space, geometry, *plan);
    EXPECT_EQ(plan->logical_extents, Extents{size});
  }
  return plan.has_value() ? *plan : Placement{};
}

Error MustNotPlace(const FreeSpace& space, const VolumeGroup& group, const Geometry& geometry,
                   uint64_t size) {
  auto plan = Place(space, geometry, {size}, group);
  EXPECT_FALSE(plan.has_value());
  return plan.has_value() ? Error(Code::kInternal, "placed") : plan.error();
}

std::vector<std::string> PvsOf(const Placement& plan) {
  std::vector<std::string> pvs;
  for (const Leg& leg : plan.legs) {
    pvs.push_back(leg.pv_uuid);
  }
  return pvs;
}

TEST(MaxExtents, CountsTheMetadataOfEachLegAndTheDiskThatLimits) {
  const VolumeGroup three = GroupOfSizes({100, 60, 50});
  EXPECT_EQ(Max(three, MakeGeometry(kRaid1)), 59);
  EXPECT_EQ(Max(three, MakeGeometry(kRaid5, 2)), 98);
  EXPECT_EQ(Max(three, MakeGeometry(kStriped, 2)), 120);
  EXPECT_EQ(Max(three, MakeGeometry(kLinear)), 210);
  const VolumeGroup five = GroupOfSizes({100, 90, 80, 30, 20});
  EXPECT_EQ(Max(five, MakeGeometry(kRaid10, 2)), 58);
  EXPECT_EQ(Max(five, MakeGeometry(kRaid6, 3)), 57);
  EXPECT_EQ(Max(five, MakeGeometry(kRaid1)), 89);
  EXPECT_EQ(Max(five, MakeGeometry(kRaid1, 0, 4)), 19);
}

TEST(MaxExtents, UsesAllFragmentsOfADisk) {
  const VolumeGroup group = GroupOf(
      {{{{0}, {40}}, {{50}, {40}}}, {{{0}, {30}}, {{40}, {50}}}, {{{5}, {20}}, {{30}, {20}}, {{60}, {45}}}});
  EXPECT_EQ(Max(group, MakeGeometry(kRaid5, 2)), 158);
  EXPECT_EQ(Max(group, MakeGeometry(kRaid1, 0, 2)), 79);
  EXPECT_EQ(Max(group, MakeGeometry(kRaid0, 3)), 240);
  EXPECT_EQ(Max(group, MakeGeometry(kStriped, 3)), 240);
  MustPlace(group, MakeGeometry(kRaid5, 2), 158);
  MustPlace(group, MakeGeometry(kRaid0, 3), 240);
}

TEST(MaxExtents, NeverUnderflows) {
  for (const Geometry& geometry : testing::SmallGeometries(5)) {
    if (geometry.has_metadata()) {
      EXPECT_EQ(Max(GroupOfSizes({1, 1, 1, 1, 1}), geometry), 0) << geometry.Describe();
    }
    EXPECT_EQ(Max(GroupOfSizes({}), geometry), 0) << geometry.Describe();
    EXPECT_EQ(Max(GroupOfSizes({0, 0, 0, 0, 0}), geometry), 0) << geometry.Describe();
  }
}

TEST(MaxExtents, ADiskOfSingleExtentsCannotBeginALegWithMetadata) {
  const VolumeGroup group = GroupOf({{{{0}, {50}}}, {{{0}, {1}}, {{2}, {1}}, {{4}, {1}}}});
  EXPECT_EQ(Max(group, MakeGeometry(kRaid1)), 0);
  EXPECT_EQ(Max(group, MakeGeometry(kStriped, 2)), 6);
}

TEST(MaxExtents, KeepsTheReserveOfTheGroup) {
  const VolumeGroup group = GroupOfSizes({100, 100});
  FreeSpace space = FreeSpaceOf(group);
  space.reserve = {30};
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kLinear)), Extents{170});
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kRaid1)), Extents{84});
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kStriped, 2)), Extents{170});
  space.reserve = {1000};
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kLinear)), Extents{0});
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kRaid1)), Extents{0});
  space.reserve = {30};
  const Error error = MustNotPlace(space, group, MakeGeometry(kRaid1), 85);
  EXPECT_EQ(error.code(), Code::kOutOfRange) << "the reserve stays even when the group is empty";
}

TEST(MaxExtents, LinearStaysOnOneDiskWhereThePoolSaysSo) {
  const VolumeGroup group = GroupOfSizes({30, 50, 40});
  FreeSpace space = FreeSpaceOf(group);
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kLinear)), Extents{120});
  space.linear_may_span = false;
  EXPECT_EQ(MaxExtents(space, MakeGeometry(kLinear)), Extents{50});
  EXPECT_EQ(MustNotPlace(space, group, MakeGeometry(kLinear), 51).code(), Code::kOutOfRange);
}

TEST(MaxExtents, IsZeroWhereStripesOrMetadataDoNotSuitTheExtents) {
  const VolumeGroup tiny = GroupOfSizes({1000, 1000, 1000}, Bytes{32 * kKiB.value});
  EXPECT_EQ(Max(tiny, MakeGeometry(kRaid1)), 0);
  EXPECT_EQ(Max(tiny, MakeGeometry(kStriped)), 0);
  EXPECT_EQ(Max(tiny, MakeGeometry(kLinear)), 3000);
  EXPECT_EQ(MustNotPlace(FreeSpaceOf(tiny), tiny, MakeGeometry(kRaid1), 1).code(), Code::kOutOfRange);
}

TEST(FreeSpaceOf, LeavesOutDisksThatTakeNothingNew) {
  VolumeGroup group = GroupOfSizes({100, 60, 50});
  group.pvs[0].allocatable = false;
  EXPECT_EQ(Max(group, MakeGeometry(kRaid1)), 49);
  EXPECT_EQ(FreeSpaceOf(group).blocked, "");
}

TEST(FreeSpaceOf, AMissingDiskBlocksTheGroup) {
  VolumeGroup group = GroupOfSizes({100, 60, 50});
  group.pvs[1].missing = true;
  group.pvs[1].device = "";
  for (const Geometry& geometry : testing::SmallGeometries(3)) {
    EXPECT_EQ(Max(group, geometry), 0);
  }
  const Error error = MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kLinear), 1);
  EXPECT_EQ(error.code(), Code::kPrecondition);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("pv1"), HasSubstr("missing")));
}

TEST(FreeSpaceOf, AnExportedGroupIsBlocked) {
  VolumeGroup group = GroupOfSizes({100});
  group.exported = true;
  EXPECT_EQ(MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kLinear), 1).code(), Code::kPrecondition);
}

TEST(Place, SaysHowManyDisksAreMissing) {
  const VolumeGroup group = GroupOf({{{{0}, {9}}}, {{{0}, {9}}}, {{{0}, {9}}}, {{{8}, {1}}}});
  const Error error = MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kRaid5, 3), 3);
  EXPECT_EQ(error.code(), Code::kNoSpace);
  EXPECT_EQ(error.message(), "raid5 with 3 stripes needs 4 disks with free space, the group has 3");
}

TEST(Place, SaysWhatTheLargestPossibleIs) {
  VolumeGroup group = GroupOfSizes({100, 100});
  group.pvs[1].free = {{{50}, {50}}};
  const Error error = MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kRaid1), 50);
  EXPECT_EQ(error.code(), Code::kNoSpace);
  EXPECT_EQ(
      error.message(),
      "no room for raid1 with 1 mirror of 200 MiB (209715200 bytes): the largest possible now is 196 MiB "
      "(205520896 bytes)");
}

TEST(Place, WhatNoStateOfTheGroupCouldHoldIsOutOfRange) {
  VolumeGroup group = GroupOfSizes({100, 100});
  group.pvs[0].free = {};
  EXPECT_EQ(MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kRaid1), 99).code(), Code::kNoSpace);
  const Error size = MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kRaid1), 100);
  EXPECT_EQ(size.code(), Code::kOutOfRange);
  EXPECT_THAT(size.message(), HasSubstr("396 MiB (415236096 bytes)"));
  const Error disks = MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kRaid5, 3), 3);
  EXPECT_EQ(disks.code(), Code::kOutOfRange);
  EXPECT_EQ(disks.message(), "raid5 with 3 stripes needs 4 disks, the group has 2 in all");
}

TEST(Place, AMissingDiskDoesNotTurnNotNowIntoNever) {
  VolumeGroup group = GroupOfSizes({100, 100});
  group.pvs[0].missing = true;
  EXPECT_EQ(MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kRaid1), 99).code(), Code::kPrecondition);
}

TEST(Place, TakesOnlyMultiplesOfTheDataLegs) {
  const VolumeGroup group = GroupOfSizes({100, 100, 100});
  EXPECT_EQ(MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kStriped, 2), 3).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(MustNotPlace(FreeSpaceOf(group), group, MakeGeometry(kLinear), 0).code(), Code::kInvalidArgument);
}

TEST(Place, OneRunPerLegIsOneContiguousCommand) {
  const VolumeGroup group = GroupOfSizes({100, 60, 50});
  const Placement plan = MustPlace(group, MakeGeometry(kRaid5, 2), 98);
  ASSERT_EQ(plan.steps.size(), 1);
  EXPECT_EQ(plan.steps[0].logical_extents, Extents{98});
  EXPECT_EQ(plan.steps[0].alloc, "contiguous");
  EXPECT_THAT(plan.steps[0].pv_arguments, ElementsAre("/dev/pv0:0-49", "/dev/pv1:0-49", "/dev/pv2:0-49"));
  EXPECT_EQ(plan.legs[0].metadata.front().range, (ExtentRange{{0}, {1}}));
  EXPECT_EQ(plan.legs[0].data.front().range, (ExtentRange{{1}, {49}}));
}

TEST(Place, FragmentsBecomeDirectedExtendsOfEqualLengthOnEveryLeg) {
  const VolumeGroup group = GroupOf({{{{0}, {10}}, {{20}, {6}}}, {{{0}, {7}}, {{10}, {9}}}});
  const Placement plan = MustPlace(group, MakeGeometry(kRaid1), 15);
  ASSERT_EQ(plan.steps.size(), 3);
  EXPECT_EQ(plan.steps[0].alloc, "contiguous");
  EXPECT_THAT(plan.steps[0].pv_arguments, ElementsAre("/dev/pv0:0-8", "/dev/pv1:10-18"));
  EXPECT_EQ(plan.steps[0].logical_extents, Extents{8});
  EXPECT_EQ(plan.steps[1].alloc, "cling");
  EXPECT_THAT(plan.steps[1].pv_arguments, ElementsAre("/dev/pv0:9-9", "/dev/pv1:0-0"));
  EXPECT_EQ(plan.steps[1].logical_extents, Extents{1});
  EXPECT_THAT(plan.steps[2].pv_arguments, ElementsAre("/dev/pv0:20-25", "/dev/pv1:1-6"));
  EXPECT_EQ(plan.steps[2].logical_extents, Extents{6});
}

TEST(Place, TheFirstPieceIsTheLongestSoLvmKeepsTheRegionSize) {
  const VolumeGroup group = GroupOf({{{{0}, {2}}, {{10}, {40}}}, {{{0}, {2}}, {{10}, {40}}}});
  const Placement plan = MustPlace(group, MakeGeometry(kRaid1), 41);
  EXPECT_EQ(plan.steps.front().logical_extents, Extents{39});
}

TEST(Place, DoesNotSplitWhereAnotherChoiceOfDisksNeedsNoSplit) {
  const VolumeGroup group =
      GroupOf({{{{0}, {30}}, {{40}, {30}}}, {{{0}, {30}}, {{40}, {30}}}, {{{0}, {41}}}, {{{0}, {41}}}});
  const Placement plan = MustPlace(group, MakeGeometry(kRaid1), 40);
  EXPECT_EQ(plan.steps.size(), 1);
  EXPECT_THAT(PvsOf(plan), ElementsAre("pv2", "pv3"));
}

TEST(Place, FillsTheShortestRunThatSufficesAndKeepsLongOnes) {
  const VolumeGroup group = GroupOf({{{{0}, {100}}, {{200}, {12}}, {{300}, {20}}}});
  const Placement plan = MustPlace(group, MakeGeometry(kLinear), 11);
  EXPECT_THAT(plan.steps[0].pv_arguments, ElementsAre("/dev/pv0:200-210"));
}

TEST(Place, ChoosesDisksWithTheMostRoomSoTheyFillEqually) {
  EXPECT_THAT(PvsOf(MustPlace(GroupOfSizes({100, 20, 100, 20}), MakeGeometry(kRaid1), 10)),
              ElementsAre("pv0", "pv2"));
  EXPECT_THAT(PvsOf(MustPlace(GroupOfSizes({50, 60, 200}), MakeGeometry(kRaid1), 10)),
              ElementsAre("pv2", "pv1"));
}

TEST(Place, NarrowVolumesLeaveRoomForWideOnes) {
  VolumeGroup group = GroupOfSizes({100, 100, 100, 100, 100});
  const Geometry raid1 = MakeGeometry(kRaid1);
  for (int i = 0; i < 5; ++i) {
    Apply(group, raid1, fmt::format("v{}", i), MustPlace(group, raid1, 19));
  }
  EXPECT_EQ(Max(group, MakeGeometry(kRaid6, 3)), 3 * (60 - 1))
      << "200 of 500 extents used, 60 left on each disk";
}

TEST(Place, SpreadsOverEqualDisks) {
  VolumeGroup group = GroupOfSizes({100, 100, 100, 100});
  const Geometry raid1 = MakeGeometry(kRaid1);
  std::set<std::string> used;
  for (const char* name : {"a", "b"}) {
    const Placement plan = MustPlace(group, raid1, 9);
    for (const Leg& leg : plan.legs) {
      used.insert(leg.pv_uuid);
    }
    Apply(group, raid1, name, plan);
  }
  EXPECT_EQ(used.size(), 4);
}

TEST(Place, UnevenDisksServeAsManyMirrorsAsCounting) {
  // 22 legs of 10 extents fit on disks of 100, 60 and 60. With no two legs of a volume on one disk, that is
  // 11 volumes.
  VolumeGroup group = GroupOfSizes({100, 60, 60});
  const Geometry raid1 = MakeGeometry(kRaid1);
  int made = 0;
  while (Max(group, raid1) >= 9) {
    Apply(group, raid1, fmt::format("v{}", made++), MustPlace(group, raid1, 9));
  }
  EXPECT_EQ(made, 11);
}

TEST(Place, LinearPrefersOneDiskThenTheFewestRanges) {
  const VolumeGroup group = GroupOf({{{{0}, {30}}, {{40}, {30}}}, {{{0}, {55}}}, {{{0}, {90}}}});
  EXPECT_THAT(PvsOf(MustPlace(group, MakeGeometry(kLinear), 50)), ElementsAre("pv1"));
  EXPECT_THAT(PvsOf(MustPlace(group, MakeGeometry(kLinear), 60)), ElementsAre("pv2"));
}

TEST(Place, LinearSpansDisksInOneCommandWhenItMust) {
  const VolumeGroup group = GroupOf({{{{0}, {30}}, {{40}, {20}}}, {{{5}, {25}}}});
  const Placement plan = MustPlace(group, MakeGeometry(kLinear), 70);
  ASSERT_EQ(plan.steps.size(), 1);
  EXPECT_EQ(plan.steps[0].alloc, "normal");
  EXPECT_EQ(plan.steps[0].logical_extents, Extents{70});
  EXPECT_THAT(plan.steps[0].pv_arguments, ElementsAre("/dev/pv0:0-29:40-54", "/dev/pv1:5-29"));
}

TEST(Place, NoPlanNeedsMoreThanTheDocumentedPieces) {
  Runs ragged;
  for (uint64_t i = 0; i < 500; ++i) {
    ragged.push_back({{i * 20}, {2 + (i * 7) % 13}});
  }
  Runs other = ragged;
  for (uint64_t i = 0; i < 500; ++i) {
    other[i].count = {2 + (i * 5) % 11};
  }
  const VolumeGroup group = GroupOf({ragged, other, ragged, other, ragged});
  for (const Geometry& geometry : testing::SmallGeometries(5)) {
    MustPlace(group, geometry, Max(group, geometry));
  }
}

TEST(Place, EscapesPathsThatLvmWouldMisread) {
  VolumeGroup group = GroupOfSizes({10});
  group.pvs[0].device = "/dev/disk/by-path/pci-0000:00:1f.2-ata@1";
  const auto plan = Place(FreeSpaceOf(group), MakeGeometry(kLinear), {4}, group);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->steps[0].pv_arguments[0], "/dev/disk/by-path/pci-0000\\:00\\:1f.2-ata\\@1:0-3");
}

TEST(Place, HoldsTheLargestGroupsLvmKnowsWithoutOverflow) {
  const uint64_t most = 4294967295;  // extents of a PV
  const VolumeGroup group = GroupOfSizes({most, most, most, most, most}, Bytes{4 * kMiB.value});
  EXPECT_EQ(Max(group, MakeGeometry(kLinear)), 5 * most);
  EXPECT_EQ(Max(group, MakeGeometry(kRaid6, 3)), 3 * (most - 1));
  const auto plan = Place(FreeSpaceOf(group), MakeGeometry(kRaid6, 3), {3 * (most - 1)}, group);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->steps[0].pv_arguments[0], "/dev/pv0:0-4294967294");
}

}  // namespace
}  // namespace quarry::lvm
