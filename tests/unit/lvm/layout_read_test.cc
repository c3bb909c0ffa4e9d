// The geometry of unmanaged volumes: every geometry that Quarry makes is recognized, all others are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm {
namespace {

using testing::Apply;
using testing::GroupOfSizes;
using ::testing::HasSubstr;
using testing::MakeGeometry;
using testing::SmallGeometries;

// A volume as LVM reports it. The groups of the layout tests lack stripe counts and sizes.
VolumeGroup GroupWith(const Geometry& geometry, uint64_t extents_per_leg) {
  VolumeGroup group = GroupOfSizes({60, 60, 60, 60, 60, 60});
  const auto plan = Place(FreeSpaceOf(group), geometry, {extents_per_leg * geometry.data_legs()}, group);
  EXPECT_TRUE(plan.has_value()) << plan.error().message();
  Apply(group, geometry, "v", *plan);
  for (LogicalVolume& lv : group.lvs) {
    for (Segment& segment : lv.segments) {
      segment.data_stripes = lv.name == "v" ? geometry.data_legs() : 1;
      segment.stripe_size = lv.name == "v" ? geometry.stripe_size() : Bytes{};
    }
  }
  return group;
}

LogicalVolume& Volume(VolumeGroup& group) {
  return *std::ranges::find(group.lvs, "v", &LogicalVolume::name);
}

std::string Refusal(const VolumeGroup& group) {
  const auto geometry = GeometryOf(group, *group.FindLv("v"));
  EXPECT_FALSE(geometry.has_value());
  EXPECT_TRUE(geometry.has_value() || geometry.error().code() == Code::kUnsupported);
  return geometry.has_value() ? "" : geometry.error().message();
}

TEST(GeometryOf, EveryGeometryComesBack) {
  for (const Geometry& geometry : SmallGeometries(6)) {
    const VolumeGroup group = GroupWith(geometry, 12);
    const auto read = GeometryOf(group, *group.FindLv("v"));
    ASSERT_TRUE(read.has_value()) << geometry.Describe() << ": " << read.error().message();
    EXPECT_EQ(read->type(), geometry.type());
    EXPECT_EQ(read->legs(), geometry.legs());
    EXPECT_EQ(read->data_legs(), geometry.data_legs());
    EXPECT_EQ(read->mirrors(), geometry.mirrors());
    EXPECT_EQ(read->stripe_size(), geometry.stripe_size());
  }
}

TEST(GeometryOf, OtherKindsAreNamed) {
  for (const char* type :
       {"thin", "thin-pool", "cache", "mirror", "raid5_n", "raid6_la_6", "error", "vdo", "writecache"}) {
    VolumeGroup group = GroupWith(MakeGeometry(VolumeType::kLinear), 12);
    Volume(group).segments.front().type = type;
    EXPECT_THAT(Refusal(group), HasSubstr(std::string("is of type ") + type));
  }
}

TEST(GeometryOf, UnequalOrIncompleteLegsAreRefused) {
  {
    VolumeGroup group = GroupWith(MakeGeometry(VolumeType::kStriped, 2), 12);
    Segment more = Volume(group).segments.front();
    more.logical.first = Extents{12};
    more.stripe_size = Bytes{4096};
    Volume(group).segments.push_back(more);
    EXPECT_THAT(Refusal(group), HasSubstr("same layout throughout"));
  }
  {
    VolumeGroup group = GroupWith(MakeGeometry(VolumeType::kRaid1), 12);
    std::erase_if(group.lvs,
                  [](const LogicalVolume& lv) { return lv.name.find("rmeta_1") != std::string::npos; });
    EXPECT_THAT(Refusal(group), HasSubstr("does not have the legs"));
  }
  {
    VolumeGroup group = GroupWith(MakeGeometry(VolumeType::kRaid1), 12);
    Volume(group).segments.front().areas.pop_back();
    EXPECT_THAT(Refusal(group), HasSubstr("single leg"));
  }
  {
    VolumeGroup group = GroupWith(MakeGeometry(VolumeType::kRaid1), 12);
    for (LogicalVolume& lv : group.lvs) {
      if (lv.name == "v_rimage_0") {
        lv.segments.front().type = "integrity";
        lv.segments.front().areas = {{"", "v_rimage_0_iorig", {{0}, {12}}}};
      }
    }
    EXPECT_FALSE(Refusal(group).empty());
  }
}

TEST(GeometryOf, TwoLegsOnOneDiskAreRefusedNamingIt) {
  VolumeGroup group = GroupWith(MakeGeometry(VolumeType::kRaid1), 12);
  for (LogicalVolume& lv : group.lvs) {
    for (Segment& segment : lv.segments) {
      for (SegmentArea& area : segment.areas) {
        area.pv_uuid = area.pv_uuid.empty() ? "" : "pv3";
      }
    }
  }
  EXPECT_THAT(Refusal(group), HasSubstr("two legs on disk /dev/pv3"));
}

}  // namespace
}  // namespace quarry::lvm
