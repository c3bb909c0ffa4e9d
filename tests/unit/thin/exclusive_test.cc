#include "thin/exclusive.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"

namespace quarry::thin {
namespace {

using testing::MemoryBlocks;
using testing::MetadataImage;

std::set<uint64_t> BlocksIn(const BlockSet& blocks) {
  std::set<uint64_t> all;
  for (auto run = blocks.NextRun(0); run; run = blocks.NextRun(run->begin + run->length)) {
    for (uint64_t i = 0; i < run->length; ++i) {
      all.insert(run->begin + i);
    }
  }
  return all;
}

Result<BlockSet> Exclusive(std::shared_ptr<BlockSource> source, std::vector<DeviceId> doomed,
                           Root root = Root::kHeld) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(source), root, Call{}));
  return FindExclusive(reader, doomed, Call{});
}

// By looking at every mapping of every device.
std::set<uint64_t> Expected(const MetadataImage& image, const std::set<DeviceId>& doomed) {
  std::set<uint64_t> mine, others, only;
  for (const auto& [id, mappings] : image.model()) {
    for (const auto& [thin, data] : mappings) {
      (doomed.contains(id) ? mine : others).insert(data);
    }
  }
  std::ranges::set_difference(mine, others, std::inserter(only, only.end()));
  return only;
}

TEST(ExclusiveTest, BlocksThatASnapshotSharesAreNotExclusive) {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  image.Snapshot(1, 2);
  image.Map(1, 7);  // data block 40
  EXPECT_EQ(BlocksIn(*Exclusive(image.Source(true), {1})), (std::set<uint64_t>{40}));
  EXPECT_EQ(BlocksIn(*Exclusive(image.Source(true), {2})), (std::set<uint64_t>{7}));
  EXPECT_EQ(BlocksIn(*Exclusive(image.Source(true), {1, 2})).size(), 41u);
}

// No shared node, only an equal mapping, as thin_restore writes it.
TEST(ExclusiveTest, EqualMappingsWithoutSharedNodesAreNotExclusive) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  for (uint64_t block = 0; block < 40; ++block) {
    image.Map(1, block, block);
    image.Map(2, block * 3, block);
  }
  image.Map(1, 100, 100);
  EXPECT_EQ(BlocksIn(*Exclusive(image.Source(true), {1})), (std::set<uint64_t>{100}));
}

TEST(ExclusiveTest, TheLastDeviceOwnsAllItsBlocks) {
  MetadataImage image(6);
  image.Create(1);
  image.Map(1, 5);
  image.Create(2);
  EXPECT_EQ(BlocksIn(*Exclusive(image.Source(), {1}, Root::kLive)), (std::set<uint64_t>{0}));
  EXPECT_TRUE(Exclusive(image.Source(), {2}, Root::kLive)->empty());
  EXPECT_TRUE(Exclusive(image.Source(), {}, Root::kLive)->empty());
}

TEST(ExclusiveTest, AnUnknownDeviceIsNotFound) {
  MetadataImage image;
  image.Create(1);
  EXPECT_EQ(Exclusive(image.Source(true), {1, 2}).error().code(), Code::kNotFound);
}

TEST(ExclusiveTest, DamageInAnotherDeviceGivesNoSet) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  for (uint64_t block = 0; block < 40; ++block) {
    image.Map(1, block);
    image.Map(2, block);
  }
  for (const uint64_t node : image.NodesOf(2)) {
    auto blocks = image.Blocks(true);
    blocks[node][100] ^= std::byte{1};
    const auto set = Exclusive(std::make_shared<MemoryBlocks>(blocks), {1});
    ASSERT_FALSE(set.has_value());
    EXPECT_EQ(set.error().code(), Code::kCorrupt);
  }
}

// A hundred snapshots cost what they do not share.
TEST(ExclusiveTest, SharedNodesAreReadOnce) {
  MetadataImage image;
  image.CreateMapped(1, 50000);
  for (DeviceId id = 2; id <= 100; ++id) {
    image.Map(1, id * 17);
    image.Snapshot(1, id);
  }
  image.Map(1, 49999);
  std::set<uint64_t> nodes;
  for (const auto& [id, mappings] : image.model()) {
    nodes.merge(image.NodesOf(id));
  }
  const auto source = image.Source(true);
  EXPECT_EQ(BlocksIn(*Exclusive(source, {1})), Expected(image, {1}));
  uint64_t reads = 0;
  for (const auto& [block, count] : source->read) {
    EXPECT_LE(count, 3) << block;
    reads += count;
  }
  EXPECT_LE(reads, nodes.size() + image.NodesOf(1).size() + 12);
}

RC_GTEST_PROP(ExclusivePropertyTest, TheSetIsThatOfBruteForce, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 60, 100);
  const auto source = image.Source(true);
  for (const auto& [id, mappings] : image.model()) {
    const auto set = Exclusive(source, {id});
    RC_ASSERT(set.has_value());
    const auto expected = Expected(image, {id});
    RC_ASSERT(BlocksIn(*set) == expected);
    RC_ASSERT(set->size() == expected.size());
  }
  const DeviceId first = image.model().begin()->first, last = image.model().rbegin()->first;
  RC_ASSERT(BlocksIn(*Exclusive(source, {first, last})) == Expected(image, {first, last}));
}

}  // namespace
}  // namespace quarry::thin
