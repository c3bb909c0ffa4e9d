#include "lvm/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::lvm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

ExtentRange Range(uint64_t first, uint64_t count) {
  return {{first}, {count}};
}

SegmentArea OnPv(std::string pv, uint64_t first, uint64_t count) {
  return {std::move(pv), "", Range(first, count)};
}
SegmentArea OnLv(std::string lv, uint64_t count) {
  return {"", std::move(lv), Range(0, count)};
}

LogicalVolume Lv(std::string name, bool hidden, std::vector<Segment> segments) {
  LogicalVolume lv;
  lv.name = std::move(name);
  lv.hidden = hidden;
  lv.segments = std::move(segments);
  return lv;
}

Segment Seg(std::string type, uint64_t first, uint64_t count, std::vector<SegmentArea> areas) {
  Segment segment;
  segment.type = std::move(type);
  segment.logical = Range(first, count);
  segment.areas = std::move(areas);
  return segment;
}

std::vector<std::string> Words(const std::vector<PhysicalRange>& ranges) {
  std::vector<std::string> out;
  for (const PhysicalRange& range : ranges) {
    out.push_back(range.pv_uuid + ":" + std::to_string(range.range.first.value) + "+" +
                  std::to_string(range.range.count.value));
  }
  return out;
}

// A raid1 of two legs; leg 1's metadata is on `metadata_pv`.
VolumeGroup Mirror(const std::string& metadata_pv) {
  VolumeGroup group;
  group.lvs.push_back(
      Lv("v", false, {Seg("raid1", 0, 10, {OnLv("v_rimage_0", 10), OnLv("v_rimage_1", 10)})}));
  group.lvs.push_back(Lv("v_rimage_0", true, {Seg("linear", 0, 10, {OnPv("A", 1, 10)})}));
  group.lvs.push_back(Lv("v_rmeta_0", true, {Seg("linear", 0, 1, {OnPv("A", 0, 1)})}));
  group.lvs.push_back(Lv("v_rimage_1", true,
                         {Seg("linear", 0, 4, {OnPv("B", 1, 4)}), Seg("linear", 4, 6, {OnPv("C", 0, 6)})}));
  group.lvs.push_back(Lv("v_rmeta_1", true, {Seg("linear", 0, 1, {OnPv(metadata_pv, 0, 1)})}));
  return group;
}

TEST(VolumeGroupTest, FindsByUuidAndNameOrSaysThereIsNone) {
  VolumeGroup group = Mirror("B");
  PhysicalVolume pv;
  pv.uuid = "A";
  group.pvs.push_back(pv);
  pv.uuid = "B";
  pv.missing = true;
  group.pvs.push_back(pv);
  EXPECT_EQ(group.FindPv("B"), &group.pvs[1]);
  EXPECT_EQ(group.FindPv("X"), nullptr);
  EXPECT_EQ(group.FindLv("v_rmeta_0"), &group.lvs[2]);
  EXPECT_EQ(group.FindLv("w"), nullptr);
  EXPECT_EQ(group.MissingPvs(), 1U);
}

TEST(PhysicalExtentsTest, OfALinearVolumeAreItsSegments) {
  VolumeGroup group;
  group.lvs.push_back(
      Lv("v", false, {Seg("linear", 0, 4, {OnPv("A", 0, 4)}), Seg("linear", 4, 6, {OnPv("B", 9, 6)})}));
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[0])), UnorderedElementsAre("A:0+4", "B:9+6"));
  EXPECT_THAT(LegPvs(group, group.lvs[0]), ElementsAre(ElementsAre("A", "B")));
  EXPECT_EQ(SharedPv(group, group.lvs[0]), std::nullopt);
}

TEST(PhysicalExtentsTest, OfRaidAreLegsWithTheirMetadata) {
  const VolumeGroup group = Mirror("B");
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[0])),
              UnorderedElementsAre("A:0+1", "A:1+10", "B:0+1", "B:1+4", "C:0+6"));
}

TEST(PhysicalExtentsTest, OfOneLegDoNotHoldItsMetadata) {
  const VolumeGroup group = Mirror("B");
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[1])), UnorderedElementsAre("A:1+10"));
}

TEST(PhysicalExtentsTest, ReachThroughIntegrity) {
  VolumeGroup group;
  group.lvs.push_back(Lv("v", false, {Seg("raid1", 0, 5, {OnLv("v_rimage_0", 5)})}));
  group.lvs.push_back(Lv("v_rimage_0", true, {Seg("integrity", 0, 5, {OnLv("v_rimage_0_iorig", 5)})}));
  group.lvs.push_back(Lv("v_rimage_0_iorig", true, {Seg("linear", 0, 5, {OnPv("A", 1, 5)})}));
  group.lvs.push_back(Lv("v_rimage_0_imeta", true, {Seg("linear", 0, 2, {OnPv("A", 6, 2)})}));
  group.lvs.push_back(Lv("v_rmeta_0", true, {Seg("linear", 0, 1, {OnPv("A", 0, 1)})}));
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[0])), UnorderedElementsAre("A:0+1", "A:1+5", "A:6+2"));
}

// pvmove without a volume name puts the moved extents of all LVs into one hidden LV.
TEST(PhysicalExtentsTest, OfAMovingVolumeExcludeOthersInTheSameMove) {
  VolumeGroup group;
  group.lvs.push_back(
      Lv("v", false,
         {Seg("linear", 0, 4, {{"", "pvmove0", Range(10, 4)}}), Seg("linear", 4, 2, {OnPv("C", 7, 2)})}));
  group.lvs.push_back(Lv("theirs", false, {Seg("linear", 0, 10, {{"", "pvmove0", Range(0, 10)}})}));
  group.lvs.push_back(Lv("pvmove0", true,
                         {Seg("mirror", 0, 10, {OnPv("A", 0, 10), OnPv("B", 20, 10)}),
                          Seg("mirror", 10, 4, {OnPv("A", 50, 4), OnPv("B", 30, 4)})}));
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[0])), UnorderedElementsAre("A:50+4", "B:30+4", "C:7+2"));
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[1])), UnorderedElementsAre("A:0+10", "B:20+10"));
}

TEST(PhysicalExtentsTest, OfAPartAreAsMuchOfEachStripe) {
  VolumeGroup group;
  group.lvs.push_back(Lv("v", false, {Seg("linear", 0, 5, {{"", "below", Range(3, 5)}})}));
  group.lvs.push_back(Lv("below", true, {Seg("striped", 0, 12, {OnPv("A", 100, 6), OnPv("B", 0, 6)})}));
  EXPECT_THAT(Words(PhysicalExtents(group, group.lvs[0])), UnorderedElementsAre("A:101+3", "B:1+3"));
}

TEST(PhysicalExtentsTest, EndEvenIfASnapshotRunsInCircles) {
  VolumeGroup group;
  group.lvs.push_back(Lv("v", true, {Seg("linear", 0, 5, {OnLv("w", 5)})}));
  group.lvs.push_back(Lv("w", true, {Seg("linear", 0, 5, {OnLv("v", 5)})}));
  EXPECT_THAT(PhysicalExtents(group, group.lvs[0]), IsEmpty());
}

TEST(LegPvsTest, CountMetadataToItsLeg) {
  const VolumeGroup group = Mirror("D");
  EXPECT_THAT(LegPvs(group, group.lvs[0]), ElementsAre(ElementsAre("A"), ElementsAre("B", "C", "D")));
  EXPECT_EQ(SharedPv(group, group.lvs[0]), std::nullopt);
}

TEST(SharedPvTest, SeesALegWhoseMetadataIsOnAnothersDisk) {
  const VolumeGroup group = Mirror("A");
  EXPECT_EQ(SharedPv(group, group.lvs[0]), "A");
}

TEST(SharedPvTest, SeesStripesThatMeetInALaterSegment) {
  VolumeGroup group;
  group.lvs.push_back(Lv("v", false,
                         {Seg("striped", 0, 4, {OnPv("A", 0, 2), OnPv("B", 0, 2)}),
                          Seg("striped", 4, 4, {OnPv("C", 0, 2), OnPv("A", 9, 2)})}));
  EXPECT_THAT(LegPvs(group, group.lvs[0]), ElementsAre(ElementsAre("A", "C"), ElementsAre("A", "B")));
  EXPECT_EQ(SharedPv(group, group.lvs[0]), "A");
}

}  // namespace
}  // namespace quarry::lvm
