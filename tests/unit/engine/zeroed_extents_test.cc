// Which extents are known to be zeroed, and when they are forgotten.
#include "engine/plan/zeroed_extents.h"

#include <gtest/gtest.h>

namespace quarry::engine {
namespace {

using lvm::ExtentRange;
using lvm::PhysicalRange;

ExtentRange Range(uint64_t first, uint64_t count) {
  return {Extents{first}, Extents{count}};
}

// One PV "a" whose free extents are `free`.
lvm::VolumeGroup Group(uint64_t seqno, std::vector<ExtentRange> free) {
  lvm::VolumeGroup group;
  group.uuid = "group";
  group.seqno = seqno;
  lvm::PhysicalVolume pv;
  pv.uuid = "a";
  pv.extent_count = Extents{100};
  pv.free = std::move(free);
  group.pvs = {pv};
  return group;
}

uint64_t Unknown(const ZeroedExtents& clean, uint64_t first, uint64_t count) {
  uint64_t sum = 0;
  for (const PhysicalRange& range : clean.Unknown({{"a", Range(first, count)}})) {
    sum += range.range.count.value;
  }
  return sum;
}

// Extents 10 to 29 are known to be zeroed, at sequence number 6.
struct Known : ZeroedExtents {
  Known() {
    Look(Group(5, {Range(0, 10), Range(30, 70)}));
    Committed(1);
    Add({{"a", Range(10, 20)}});
    Look(Group(6, {Range(0, 100)}));
  }
};

TEST(ZeroedExtents, NothingIsKnownAtFirst) {
  ZeroedExtents clean;
  clean.Look(Group(5, {Range(0, 100)}));
  EXPECT_EQ(Unknown(clean, 0, 100), 100U);
}

TEST(ZeroedExtents, OnlyZeroedExtentsAreKnown) {
  const Known clean;
  EXPECT_EQ(Unknown(clean, 10, 20), 0U);
  EXPECT_EQ(Unknown(clean, 0, 100), 80U);
  EXPECT_EQ(clean.Unknown({{"b", Range(10, 20)}}).size(), 1U) << "another disk";
  const auto around = clean.Unknown({{"a", Range(5, 30)}});
  ASSERT_EQ(around.size(), 2U);
  EXPECT_EQ(around[0].range, Range(5, 5));
  EXPECT_EQ(around[1].range, Range(30, 5));
}

TEST(ZeroedExtents, OwnCommitsForgetOnlyTheExtentsTheyTake) {
  Known clean;
  clean.Committed(3);
  clean.Look(Group(9, {Range(0, 15), Range(20, 80)}));
  EXPECT_EQ(Unknown(clean, 10, 20), 5U);
  clean.Look(Group(9, {Range(0, 100)}));
  EXPECT_EQ(Unknown(clean, 10, 20), 5U) << "extents that were allocated are unknown when they are free again";
}

TEST(ZeroedExtents, ACommitByAnotherProcessForgetsEverything) {
  Known clean;
  clean.Committed(2);
  clean.Look(Group(9, {Range(0, 100)}));
  EXPECT_EQ(Unknown(clean, 10, 20), 20U);
}

TEST(ZeroedExtents, AMissingOwnCommitDoesNotHideALaterOtherCommit) {
  Known clean;
  clean.Committed(5);
  clean.Look(Group(6, {Range(0, 100)}));
  EXPECT_EQ(Unknown(clean, 10, 20), 0U);
  clean.Look(Group(7, {Range(0, 100)}));
  EXPECT_EQ(Unknown(clean, 10, 20), 20U);
}

TEST(ZeroedExtents, AnotherGroupOrAnOlderSnapshotIsUnknown) {
  Known other;
  lvm::VolumeGroup group = Group(6, {Range(0, 100)});
  group.uuid = "another";
  other.Look(group);
  EXPECT_EQ(Unknown(other, 10, 20), 20U);
  Known restored;
  restored.Look(Group(5, {Range(0, 100)}));
  EXPECT_EQ(Unknown(restored, 10, 20), 20U);
}

TEST(ZeroedExtents, ADiskThatWasMissingIsUnknown) {
  Known clean;
  lvm::VolumeGroup group = Group(6, {Range(0, 100)});
  group.pvs.front().missing = true;
  clean.Look(group);
  clean.Look(Group(6, {Range(0, 100)}));
  EXPECT_EQ(Unknown(clean, 10, 20), 20U);
}

TEST(ZeroedExtents, RangesAreCutAndJoined) {
  EXPECT_EQ(Without({Range(0, 10)}, {Range(2, 3), Range(7, 10)}),
            (std::vector<ExtentRange>{Range(0, 2), Range(5, 2)}));
  EXPECT_EQ(Without({Range(0, 10)}, {Range(0, 10)}), std::vector<ExtentRange>{});
  EXPECT_EQ(Common({Range(0, 10), Range(20, 10)}, {Range(5, 20)}),
            (std::vector<ExtentRange>{Range(5, 5), Range(20, 5)}));
  EXPECT_EQ(ByPv({{"a", Range(5, 5)}, {"a", Range(0, 5)}, {"b", Range(1, 1)}}).at("a"),
            std::vector<ExtentRange>{Range(0, 10)});
}

}  // namespace
}  // namespace quarry::engine
