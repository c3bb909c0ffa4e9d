#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm {
namespace {

using testing::Apply;
using ::testing::ElementsAre;
using testing::ExpectSound;
using testing::GroupOf;
using testing::GroupOfSizes;
using ::testing::HasSubstr;
using testing::MakeGeometry;
using enum VolumeType;

void Create(VolumeGroup& group, const Geometry& geometry, const std::string& name, uint64_t size) {
  const auto plan = Place(FreeSpaceOf(group), geometry, {size}, group);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  Apply(group, geometry, name, *plan);
}

uint64_t Max(const VolumeGroup& group, const Geometry& geometry, std::string_view name) {
  return MaxGrowth(FreeSpaceOf(group), geometry, group, *group.FindLv(name)).value;
}

Placement MustGrow(VolumeGroup& group, const Geometry& geometry, const std::string& name, uint64_t more) {
  const FreeSpace space = FreeSpaceOf(group);
  const auto plan = PlaceGrowth(space, geometry, group, *group.FindLv(name), {more});
  EXPECT_TRUE(plan.has_value()) << plan.error().message();
  if (!plan.has_value()) {
    return {};
  }
  ExpectSound(space, geometry, *plan);
  Apply(group, geometry, name, *plan);
  const Status verified = VerifyPlacement(group, *group.FindLv(name), *plan);
  EXPECT_TRUE(verified.has_value()) << verified.error().message();
  return *plan;
}

Error MustNotGrow(const VolumeGroup& group, const Geometry& geometry, std::string_view name, uint64_t more) {
  const auto plan = PlaceGrowth(FreeSpaceOf(group), geometry, group, *group.FindLv(name), {more});
  EXPECT_FALSE(plan.has_value());
  return plan.has_value() ? Error(Code::kInternal, "placed") : plan.error();
}

TEST(Growth, LegsStayOnTheirDisksAndCostNoMoreMetadata) {
  VolumeGroup group = GroupOfSizes({30, 30, 100});
  const Geometry raid1 = MakeGeometry(kRaid1);
  Create(group, raid1, "v", 9);
  ASSERT_EQ(LegPvs(group, *group.FindLv("v")), (std::vector<std::vector<std::string>>{{"pv2"}, {"pv0"}}));
  EXPECT_EQ(Max(group, raid1, "v"), 20) << "disk pv0 has 20 extents left";
  const Placement plan = MustGrow(group, raid1, "v", 20);
  EXPECT_EQ(plan.existing, Extents{9});
  EXPECT_EQ(plan.logical_extents, Extents{29});
  ASSERT_EQ(plan.steps.size(), 1);
  EXPECT_EQ(plan.steps[0].alloc, "cling");
  EXPECT_THAT(plan.steps[0].pv_arguments, ElementsAre("/dev/pv2:10-29", "/dev/pv0:10-29"));
}

TEST(Growth, GoesOnWhereALegEndsThoughAShorterRunWouldDo) {
  VolumeGroup group = GroupOf({{{{0}, {50}}, {{60}, {5}}}});
  const Geometry linear = MakeGeometry(kLinear);
  Create(group, linear, "v", 10);
  EXPECT_THAT(MustGrow(group, linear, "v", 5).steps[0].pv_arguments, ElementsAre("/dev/pv0:10-14"));
}

TEST(Growth, UsesFragmentsPieceByPiece) {
  VolumeGroup group =
      GroupOf({{{{0}, {10}}, {{20}, {6}}, {{30}, {4}}}, {{{0}, {10}}, {{20}, {3}}, {{30}, {7}}}});
  const Geometry striped = MakeGeometry(kStriped, 2);
  Create(group, striped, "v", 20);
  EXPECT_EQ(Max(group, striped, "v"), 20);
  EXPECT_EQ(MustGrow(group, striped, "v", 20).steps.size(), 3);
  EXPECT_EQ(Max(group, striped, "v"), 0);
}

TEST(Growth, LinearStaysOnItsDiskWhileItCanAndThenGoesOn) {
  VolumeGroup group = GroupOf({{{{0}, {20}}, {{30}, {8}}}, {{{0}, {100}}}});
  const Geometry linear = MakeGeometry(kLinear);
  Create(group, linear, "v", 20);
  EXPECT_EQ(Max(group, linear, "v"), 108);
  EXPECT_THAT(MustGrow(group, linear, "v", 6).steps[0].pv_arguments, ElementsAre("/dev/pv0:30-35"));
  EXPECT_THAT(MustGrow(group, linear, "v", 6).steps[0].pv_arguments, ElementsAre("/dev/pv1:0-5"));
  FreeSpace space = FreeSpaceOf(group);
  space.linear_may_span = false;
  EXPECT_EQ(MaxGrowth(space, linear, group, *group.FindLv("v")), Extents{96})
      << "it is on both disks already";
}

TEST(Growth, LinearMayNotSpanWhereThePoolSaysSo) {
  VolumeGroup group = GroupOfSizes({20, 100});
  const Geometry linear = MakeGeometry(kLinear);
  Create(group, linear, "v", 5);
  FreeSpace space = FreeSpaceOf(group);
  space.linear_may_span = false;
  EXPECT_EQ(MaxGrowth(space, linear, group, *group.FindLv("v")), Extents{15});
  EXPECT_FALSE(PlaceGrowth(space, linear, group, *group.FindLv("v"), {16}).has_value());
}

TEST(Growth, KeepsTheReserve) {
  VolumeGroup group = GroupOfSizes({50, 50});
  const Geometry raid1 = MakeGeometry(kRaid1);
  Create(group, raid1, "v", 9);
  FreeSpace space = FreeSpaceOf(group);
  space.reserve = {11};
  EXPECT_EQ(MaxGrowth(space, raid1, group, *group.FindLv("v")), Extents{34});
}

TEST(Growth, SaysWhichDiskIsFull) {
  VolumeGroup group = GroupOfSizes({30, 30});
  const Geometry raid1 = MakeGeometry(kRaid1);
  Create(group, raid1, "v", 9);
  group.pvs[1].free = {{{10}, {5}}};
  const Error error = MustNotGrow(group, raid1, "v", 6);
  EXPECT_EQ(error.code(), Code::kNoSpace);
  EXPECT_THAT(error.message(), HasSubstr("the most possible now is 20 MiB (20971520 bytes)"));
  EXPECT_THAT(error.message(), HasSubstr("leg 1 needs 6 extents on disk /dev/pv1, which has 5"));
  EXPECT_EQ(MustNotGrow(group, raid1, "v", 21).code(), Code::kOutOfRange);
}

TEST(Growth, ADiskThatTakesNothingNewStopsIt) {
  VolumeGroup group = GroupOfSizes({30, 30, 30});
  const Geometry raid5 = MakeGeometry(kRaid5, 2);
  Create(group, raid5, "v", 10);
  group.pvs[2].allocatable = false;
  EXPECT_EQ(Max(group, raid5, "v"), 0);
  EXPECT_EQ(MustNotGrow(group, raid5, "v", 2).code(), Code::kNoSpace);
  group.pvs[2].missing = true;
  EXPECT_EQ(MustNotGrow(group, raid5, "v", 2).code(), Code::kPrecondition);
}

TEST(Growth, LegsThatShareADiskAreNotGrown) {
  VolumeGroup group = GroupOfSizes({30, 30});
  const Geometry raid1 = MakeGeometry(kRaid1);
  Create(group, raid1, "v", 9);
  for (LogicalVolume& lv : group.lvs) {
    if (lv.name == "v_rimage_1") {
      lv.segments.back().areas.front().pv_uuid = "pv0";
    }
  }
  EXPECT_EQ(Max(group, raid1, "v"), 0);
  const Error error = MustNotGrow(group, raid1, "v", 1);
  EXPECT_EQ(error.code(), Code::kPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("share disk pv0"));
}

TEST(Growth, ALegSpreadByOthersGrowsOnTheDiskWhereItBegins) {
  VolumeGroup group = GroupOfSizes({30, 30, 30});
  const Geometry raid1 = MakeGeometry(kRaid1);
  Create(group, raid1, "v", 9);
  for (LogicalVolume& lv : group.lvs) {  // leg 1 continues on the third disk
    if (lv.name == "v_rimage_1") {
      lv.segments.push_back({"linear", {{9}, {2}}, 1, {}, {}, {}, {}, {{"pv2", "", {{0}, {2}}}}, {}, {}});
    } else if (lv.name == "v_rimage_0") {
      lv.segments.push_back({"linear", {{9}, {2}}, 1, {}, {}, {}, {}, {{"pv0", "", {{10}, {2}}}}, {}, {}});
    } else if (lv.name == "v") {
      lv.segments.front().logical.count = {11};
    }
  }
  group.pvs[0].free = {{{12}, {18}}};
  group.pvs[2].free = {{{2}, {28}}};
  EXPECT_THAT(MustGrow(group, raid1, "v", 3).steps[0].pv_arguments,
              ElementsAre("/dev/pv0:12-14", "/dev/pv1:10-12"));
}

TEST(Growth, AnotherGeometryIsRefused) {
  VolumeGroup group = GroupOfSizes({30, 30, 30, 30});
  Create(group, MakeGeometry(kRaid10, 2), "v", 10);
  EXPECT_EQ(MustNotGrow(group, MakeGeometry(kRaid1), "v", 1).code(), Code::kPrecondition);
  EXPECT_EQ(MustNotGrow(group, MakeGeometry(kRaid5, 3), "v", 3).code(), Code::kPrecondition);
  EXPECT_EQ(MustNotGrow(group, MakeGeometry(kRaid10, 2), "v", 3).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace quarry::lvm
