#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm {
namespace {

using testing::Apply;
using testing::GroupOf;
using testing::GroupOfSizes;
using ::testing::HasSubstr;
using testing::MakeGeometry;
using enum VolumeType;

struct Made {
  VolumeGroup group;
  Placement plan;
};

Made Make(VolumeGroup group, const Geometry& geometry, uint64_t size) {
  auto plan = Place(FreeSpaceOf(group), geometry, {size}, group);
  EXPECT_TRUE(plan.has_value()) << plan.error().message();
  Apply(group, geometry, "v", *plan);
  return {std::move(group), std::move(*plan)};
}

LogicalVolume& Lv(Made& made, std::string_view name) {
  for (LogicalVolume& lv : made.group.lvs) {
    if (lv.name == name) {
      return lv;
    }
  }
  ADD_FAILURE() << "no " << name;
  std::abort();
}

std::string Difference(const Made& made) {
  const Status status = VerifyPlacement(made.group, *made.group.FindLv("v"), made.plan);
  if (status.has_value()) {
    return "";
  }
  EXPECT_EQ(status.error().code(), Code::kCorrupt);
  return status.error().message();
}

TEST(VerifyPlacement, AcceptsWhatWasPlanned) {
  for (const Geometry& geometry : testing::SmallGeometries(5)) {
    const uint64_t size = 6 * geometry.data_legs();
    EXPECT_EQ(Difference(Make(GroupOfSizes({30, 30, 30, 30, 30}), geometry, size)), "")
        << geometry.Describe();
  }
}

TEST(PlacementOf, IsHowTheVolumeLies) {
  for (const Geometry& geometry : testing::SmallGeometries(5)) {
    Made made = Make(GroupOfSizes({30, 30, 30, 30, 30}), geometry, 6 * geometry.data_legs());
    const auto now = PlacementOf(made.group, *made.group.FindLv("v"));
    ASSERT_TRUE(now.has_value()) << geometry.Describe() << ": " << now.error().message();
    EXPECT_EQ(now->logical_extents, made.plan.logical_extents);
    EXPECT_EQ(now->legs.size(), made.plan.legs.size()) << geometry.Describe();
    made.plan = *now;
    EXPECT_EQ(Difference(made), "") << geometry.Describe();
  }
  Made moved = Make(GroupOfSizes({30, 30, 30}), MakeGeometry(kRaid1), 9);
  moved.plan = *PlacementOf(moved.group, *moved.group.FindLv("v"));
  Lv(moved, "v_rimage_1").segments[0].areas[0].range.first = {2};
  EXPECT_THAT(Difference(moved), HasSubstr("leg 1"));
  Lv(moved, "v_rimage_1").segments[0].areas[0].pv_uuid = "pv0";
  EXPECT_EQ(PlacementOf(moved.group, *moved.group.FindLv("v")).error().code(), Code::kCorrupt)
      << "two legs share a disk";
}

TEST(VerifyPlacement, FindsALegElsewhere) {
  Made made = Make(GroupOfSizes({30, 30, 30}), MakeGeometry(kRaid1), 9);
  Lv(made, "v_rimage_1").segments[0].areas[0].range.first = {2};
  EXPECT_THAT(Difference(made), HasSubstr("leg 1 was planned on /dev/pv1:1-9, LVM made it on /dev/pv1:2-10"));
}

TEST(VerifyPlacement, FindsMetadataElsewhere) {
  Made made = Make(GroupOfSizes({30, 30, 30}), MakeGeometry(kRaid1), 9);
  Lv(made, "v_rmeta_0").segments[0].areas[0].pv_uuid = "pv2";
  EXPECT_THAT(Difference(made), HasSubstr("metadata of leg 0"));
}

TEST(VerifyPlacement, FindsSwappedLegs) {
  Made made = Make(GroupOfSizes({30, 30}), MakeGeometry(kStriped, 2), 10);
  std::swap(Lv(made, "v").segments[0].areas[0], Lv(made, "v").segments[0].areas[1]);
  EXPECT_THAT(Difference(made), HasSubstr("leg 0"));
}

TEST(VerifyPlacement, FindsAnotherSizeOrNumberOfLegs) {
  Made smaller = Make(GroupOfSizes({30, 30}), MakeGeometry(kStriped, 2), 10);
  Lv(smaller, "v").segments[0].logical.count = {8};
  EXPECT_THAT(Difference(smaller), HasSubstr("10 extents"));
  Made fewer = Make(GroupOfSizes({30, 30}), MakeGeometry(kStriped, 2), 10);
  Lv(fewer, "v").segments[0].areas.pop_back();
  EXPECT_THAT(Difference(fewer), HasSubstr("legs"));
}

TEST(VerifyPlacement, FindsExtentsThatWereNotPlannedAtAll) {
  Made made = Make(GroupOfSizes({30, 30}), MakeGeometry(kRaid1), 9);
  Lv(made, "v_rimage_0")
      .segments.insert(Lv(made, "v_rimage_0").segments.begin(),
                       {"linear", {{0}, {4}}, 1, {}, {}, {}, {}, {{"pv0", "", {{20}, {4}}}}, {}, {}});
  EXPECT_THAT(Difference(made), HasSubstr("leg 0"));
}

TEST(VerifyPlacement, FindsAMissingSubVolume) {
  Made made = Make(GroupOfSizes({30, 30}), MakeGeometry(kRaid1), 9);
  std::erase_if(made.group.lvs, [](const LogicalVolume& lv) { return lv.name == "v_rimage_1"; });
  EXPECT_THAT(Difference(made), HasSubstr("v_rimage_1"));
}

TEST(VerifyPlacement, LinearMayComeInAnyOrderButNotElsewhere) {
  Made made = Make(GroupOf({{{{0}, {8}}, {{10}, {5}}, {{20}, {3}}}}), MakeGeometry(kLinear), 16);
  std::swap(Lv(made, "v").segments[0].areas, Lv(made, "v").segments[2].areas);
  EXPECT_EQ(Difference(made), "");
  Lv(made, "v").segments[1].areas[0].range.first = {30};
  EXPECT_THAT(Difference(made), HasSubstr("leg 0"));
}

TEST(VerifyPlacement, SegmentsThatLvmMergedAreTheSame) {
  Made made =
      Make(GroupOf({{{{0}, {10}}, {{20}, {6}}}, {{{0}, {7}}, {{10}, {9}}}}), MakeGeometry(kRaid1), 15);
  LogicalVolume& leg = Lv(made, "v_rimage_0");
  ASSERT_EQ(leg.segments.size(), 3);
  leg.segments[0].areas[0].range.count += leg.segments[1].areas[0].range.count;
  leg.segments.erase(leg.segments.begin() + 1);
  EXPECT_EQ(Difference(made), "");
}

TEST(VerifyPlacement, NoticesLegsOnOneDiskEvenIfThatWasThePlan) {
  Made made = Make(GroupOfSizes({30, 30}), MakeGeometry(kStriped, 2), 10);
  Lv(made, "v").segments[0].areas[1] = {"pv0", "", {{10}, {5}}};
  made.plan.legs[1].data = {{"pv0", {{10}, {5}}}};
  EXPECT_THAT(Difference(made), HasSubstr("share disk pv0"));
}

}  // namespace
}  // namespace quarry::lvm
