#include "thin/difference.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"

namespace quarry::thin {
namespace {

using testing::MetadataImage;

MetadataReader MustOpen(std::shared_ptr<BlockSource> source) {
  auto reader = MetadataReader::Open(std::move(source), Root::kLive, Call{});
  EXPECT_TRUE(reader.has_value()) << reader.error().message();
  return std::move(*reader);
}

std::vector<ChangedRun> Difference(MetadataReader& reader, DeviceId base, DeviceId target,
                                   uint64_t from = 0) {
  std::vector<ChangedRun> runs;
  const auto status = WalkDifference(
      reader, base, target, from, [&](const ChangedRun& run) { return runs.push_back(run), true; }, Call{});
  EXPECT_TRUE(status.has_value()) << status.error().message();
  return runs;
}

// Block by block.
std::vector<ChangedRun> Expected(const MetadataImage::Mappings& base, const MetadataImage::Mappings& target,
                                 uint64_t from = 0) {
  std::map<uint64_t, Change> changes;
  for (const auto& [block, data] : base) {
    const auto now = target.find(block);
    if (now == target.end()) {
      changes[block] = Change::kRemoved;
    } else if (now->second != data) {
      changes[block] = Change::kChanged;
    }
  }
  for (const auto& [block, data] : target) {
    if (!base.contains(block)) {
      changes[block] = Change::kAdded;
    }
  }
  std::vector<ChangedRun> runs;
  for (auto change = changes.lower_bound(from); change != changes.end(); ++change) {
    if (!runs.empty() && runs.back().change == change->second &&
        runs.back().thin_begin + runs.back().length == change->first) {
      ++runs.back().length;
    } else {
      runs.push_back({change->second, change->first, 1});
    }
  }
  return runs;
}

TEST(DifferenceTest, EachKindOfChangeIsARun) {
  MetadataImage image(6);
  image.CreateMapped(1, 50);
  image.Snapshot(1, 2);
  image.Map(1, 10);
  image.Map(1, 11);
  image.Unmap(1, 12);
  image.Map(1, 60);
  image.Map(1, 61);
  MetadataReader reader = MustOpen(image.Source());
  EXPECT_EQ(Difference(reader, 2, 1),
            (std::vector<ChangedRun>{
                {Change::kChanged, 10, 2}, {Change::kRemoved, 12, 1}, {Change::kAdded, 60, 2}}));
  EXPECT_EQ(Difference(reader, 1, 2, 11),
            (std::vector<ChangedRun>{
                {Change::kChanged, 11, 1}, {Change::kAdded, 12, 1}, {Change::kRemoved, 60, 2}}));
}

TEST(DifferenceTest, EqualDevicesNeedNoNode) {
  MetadataImage image(6);
  image.CreateMapped(1, 50);
  image.Snapshot(1, 2);
  MetadataReader reader = MustOpen(image.Source());
  EXPECT_TRUE(Difference(reader, 1, 2).empty());
  EXPECT_EQ(reader.reads(), 3u);  // superblock, and twice the tree of devices
}

// The tree grows by a level, and nodes are split. What both share is found nevertheless.
TEST(DifferenceTest, TreesOfDifferentHeightAreComparedByTheirSharedNodes) {
  MetadataImage image(6);
  image.CreateMapped(1, 200);
  image.Snapshot(1, 2);
  for (uint64_t block = 200; block < 600; ++block) {
    image.Map(1, block);
  }
  const auto source = image.Source();
  MetadataReader reader = MustOpen(source);
  EXPECT_EQ(Difference(reader, 2, 1), (std::vector<ChangedRun>{{Change::kAdded, 200, 400}}));
  std::vector<uint64_t> shared, read;
  std::ranges::set_intersection(image.NodesOf(1), image.NodesOf(2), std::back_inserter(shared));
  ASSERT_GT(shared.size(), 40u);
  for (const uint64_t node : shared) {
    if (source->read.contains(node)) {
      read.push_back(node);
    }
  }
  // The height of each tree is measured on its leftmost path.
  EXPECT_LE(read.size(), 4u);
}

TEST(DifferenceTest, UnknownDevicesAreNotFound) {
  MetadataImage image;
  image.Create(1);
  MetadataReader reader = MustOpen(image.Source());
  const auto ignore = [](const ChangedRun&) { return true; };
  EXPECT_EQ(WalkDifference(reader, 1, 2, 0, ignore, Call{}).error().code(), Code::kNotFound);
  EXPECT_EQ(WalkDifference(reader, 2, 1, 0, ignore, Call{}).error().code(), Code::kNotFound);
}

TEST(DifferenceTest, AVisitorEndsTheWalk) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  for (uint64_t block = 0; block < 500; block += 2) {
    image.Map(1, block);
  }
  MetadataReader reader = MustOpen(image.Source());
  int runs = 0;
  ASSERT_TRUE(
      WalkDifference(reader, 1, 2, 0, [&](const ChangedRun&) { return ++runs < 2; }, Call{}).has_value());
  EXPECT_EQ(runs, 2);
  EXPECT_LT(reader.reads(), 20u);
}

RC_GTEST_PROP(DifferencePropertyTest, AnyTwoDevicesOfAnyHistoryDifferAsTheirBlocksDo, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 40, 120);
  MetadataReader reader = MustOpen(image.Source());
  const uint64_t from = *rc::gen::inRange<uint64_t>(0, 140);
  for (const auto& [base, base_mappings] : image.model()) {
    for (const auto& [target, target_mappings] : image.model()) {
      RC_ASSERT(Difference(reader, base, target) == Expected(base_mappings, target_mappings));
      RC_ASSERT(Difference(reader, base, target, from) == Expected(base_mappings, target_mappings, from));
    }
  }
}

// Continued after each run, a walk gives what it gives in one piece.
RC_GTEST_PROP(DifferencePropertyTest, AWalkThatContinuesAfterEachRunGivesTheSame, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 30, 60);
  MetadataReader reader = MustOpen(image.Source());
  const DeviceId base = image.model().begin()->first, target = image.model().rbegin()->first;
  std::vector<ChangedRun> pieces;
  uint64_t from = 0;
  for (bool more = true; more;) {
    more = false;
    const auto visit = [&](const ChangedRun& run) {
      pieces.push_back(run);
      from = run.thin_begin + run.length;
      return !(more = true);
    };
    RC_ASSERT(WalkDifference(reader, base, target, from, visit, Call{}).has_value());
  }
  RC_ASSERT(pieces == Difference(reader, base, target));
}

// A million mappings, of which a thousand were changed here and there since the snapshot.
TEST(DifferenceTest, TheCostIsThatOfTheChange) {
  constexpr uint64_t kMappings = 1'000'000, kChanged = 1'000;
  MetadataImage image;
  image.CreateMapped(1, kMappings);
  image.Snapshot(1, 2);
  for (uint64_t i = 0; i < kChanged; ++i) {
    image.Map(1, i * (kMappings / kChanged));
  }
  const auto source = image.Source();
  MetadataReader reader = MustOpen(source);
  const auto runs = Difference(reader, 2, 1);
  EXPECT_EQ(runs.size(), kChanged);
  std::vector<uint64_t> own;
  std::ranges::set_symmetric_difference(image.NodesOf(1), image.NodesOf(2), std::back_inserter(own));
  // Each node that only one of them has, and a few on the way to the heights and the roots.
  EXPECT_LE(reader.reads(), own.size() + 12);
  EXPECT_GE(image.NodesOf(1).size() + image.NodesOf(2).size(), 7 * own.size());
}

}  // namespace
}  // namespace quarry::thin
