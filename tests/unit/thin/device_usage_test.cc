#include "thin/device_usage.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"
#include "thin/pool_reader.h"

namespace quarry::thin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MemoryBlocks;
using testing::MetadataImage;
using ::testing::Pair;

constexpr uint64_t kBlock = 65536;  // of the image

Result<std::map<DeviceId, Bytes>> Exclusive(std::shared_ptr<BlockSource> source, std::vector<DeviceId> ids,
                                            const Call& call = Call{}) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(source), Root::kHeld, Call{}));
  return CountExclusive(reader, ids, call);
}

Result<std::map<DeviceId, Bytes>> Mapped(std::shared_ptr<BlockSource> source, std::vector<DeviceId> ids) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(source), Root::kHeld, Call{}));
  return FindMappedBytes(reader, ids, Call{});
}

std::vector<DeviceId> IdsOf(const MetadataImage& image) {
  std::vector<DeviceId> ids;
  for (const auto& [id, mappings] : image.model()) {
    ids.push_back(id);
  }
  return ids;
}

// By looking at every mapping of every device.
std::map<DeviceId, Bytes> Expected(const MetadataImage& image) {
  std::map<uint64_t, std::set<DeviceId>> owners;
  for (const auto& [id, mappings] : image.model()) {
    for (const auto& [thin, data] : mappings) {
      owners[data].insert(id);
    }
  }
  std::map<DeviceId, Bytes> out;
  for (const auto& [id, mappings] : image.model()) {
    out[id] = Bytes{};
  }
  for (const auto& [data, of] : owners) {
    if (of.size() == 1) {
      out[*of.begin()] = out[*of.begin()] + Bytes{kBlock};
    }
  }
  return out;
}

TEST(DeviceUsageTest, BlocksThatASnapshotSharesAreMappedByBothAndExclusiveToNone) {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  image.Snapshot(1, 2);
  image.Map(1, 7);
  image.Map(1, 100);
  EXPECT_THAT(*Mapped(image.Source(true), {1, 2}),
              ElementsAre(Pair(1, Bytes{41 * kBlock}), Pair(2, Bytes{40 * kBlock})));
  EXPECT_THAT(*Exclusive(image.Source(true), {1, 2}),
              ElementsAre(Pair(1, Bytes{2 * kBlock}), Pair(2, Bytes{1 * kBlock})));
}

TEST(DeviceUsageTest, OfASnapshotThatNobodyWroteNothingIsExclusive) {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  image.Snapshot(1, 2);
  image.Snapshot(2, 3);
  EXPECT_THAT(*Exclusive(image.Source(true), {1, 2, 3}),
              ElementsAre(Pair(1, Bytes{}), Pair(2, Bytes{}), Pair(3, Bytes{})));
  image.Delete(1);
  image.Delete(3);
  EXPECT_THAT(*Exclusive(image.Source(true), {2}), ElementsAre(Pair(2, Bytes{40 * kBlock})));
}

// No shared node, only an equal mapping, as thin_restore writes it.
TEST(DeviceUsageTest, EqualMappingsWithoutSharedNodesAreNotExclusive) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  for (uint64_t block = 0; block < 40; ++block) {
    image.Map(1, block, block);
    image.Map(2, block * 3, block);
  }
  image.Map(1, 100, 100);
  EXPECT_THAT(*Exclusive(image.Source(true), {1, 2}), ElementsAre(Pair(1, Bytes{kBlock}), Pair(2, Bytes{})));
}

TEST(DeviceUsageTest, DevicesThatAreNotThereAreLeftOut) {
  MetadataImage image;
  image.CreateMapped(1, 3);
  EXPECT_THAT(*Mapped(image.Source(true), {1, 2}), ElementsAre(Pair(1, Bytes{3 * kBlock})));
  EXPECT_THAT(*Exclusive(image.Source(true), {1, 2}), ElementsAre(Pair(1, Bytes{3 * kBlock})));
  EXPECT_THAT(*Exclusive(image.Source(true), {}), IsEmpty());
}

TEST(DeviceUsageTest, DamageInAnotherDeviceGivesNoNumbers) {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  image.CreateMapped(2, 40);
  for (const uint64_t node : image.NodesOf(2)) {
    auto blocks = image.Blocks(true);
    blocks[node][100] ^= std::byte{1};
    const auto counted = Exclusive(std::make_shared<MemoryBlocks>(blocks), {1});
    ASSERT_FALSE(counted.has_value());
    EXPECT_EQ(counted.error().code(), Code::kCorrupt);
  }
}

TEST(DeviceUsageTest, ACountEndsWithItsCall) {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  Call over;
  over.deadline = SteadyTime::min();
  EXPECT_EQ(Exclusive(image.Source(true), {1}, over).error().code(), Code::kTimeout);
}

TEST(DeviceUsageTest, AMetadataDeviceThatIsNotThereIsUnavailable) {
  const std::vector<uint32_t> ids = {1};
  PoolReader reader;
  EXPECT_EQ(reader.MappedBytes("/dev/quarry-no-such-device", ids, Call{}).error().code(), Code::kUnavailable);
  EXPECT_EQ(reader.ExclusiveBytes("/dev/quarry-no-such-device", ids, Call{}).error().code(),
            Code::kUnavailable);
}

// A hundred snapshots cost what they do not share.
TEST(DeviceUsageTest, EachNodeIsReadThreeTimesAtMost) {
  MetadataImage image;
  image.CreateMapped(1, 20000);
  for (DeviceId id = 2; id <= 100; ++id) {
    image.Map(1, id * 17);
    image.Snapshot(1, id);
  }
  std::set<uint64_t> nodes;
  for (const auto& [id, mappings] : image.model()) {
    nodes.merge(image.NodesOf(id));
  }
  const auto source = image.Source(true);
  EXPECT_EQ(*Exclusive(source, IdsOf(image)), Expected(image));
  for (const uint64_t node : nodes) {
    EXPECT_LE(source->read[node], 3) << node;
  }
}

RC_GTEST_PROP(DeviceUsagePropertyTest, TheNumbersAreThoseOfBruteForce, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 60, 100);
  const auto counted = Exclusive(image.Source(true), IdsOf(image));
  RC_ASSERT(counted.has_value());
  RC_ASSERT(*counted == Expected(image));
  const auto mapped = Mapped(image.Source(true), IdsOf(image));
  RC_ASSERT(mapped.has_value());
  for (const auto& [id, mappings] : image.model()) {
    RC_ASSERT(mapped->at(id) == Bytes{mappings.size() * kBlock});
  }
}

}  // namespace
}  // namespace quarry::thin
