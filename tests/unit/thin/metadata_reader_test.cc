#include "thin/metadata_reader.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"

namespace quarry::thin {
namespace {

using testing::BlockBytes;
using ::testing::HasSubstr;
using testing::MemoryBlocks;
using testing::MetadataImage;

MetadataReader MustOpen(std::shared_ptr<BlockSource> source, Root root = Root::kLive) {
  auto reader = MetadataReader::Open(std::move(source), root, Call{});
  EXPECT_TRUE(reader.has_value()) << reader.error().message();
  return std::move(*reader);
}

std::vector<MappingRun> RunsOf(MetadataReader& reader, DeviceId id, uint64_t from = 0) {
  std::vector<MappingRun> runs;
  const auto status =
      reader.Walk(id, from, [&](const MappingRun& run) { return runs.push_back(run), true; }, Call{});
  EXPECT_TRUE(status.has_value()) << status.error().message();
  return runs;
}

std::vector<MappingRun> RunsOf(const MetadataImage::Mappings& mappings, uint64_t from = 0) {
  std::vector<MappingRun> runs;
  for (auto mapping = mappings.lower_bound(from); mapping != mappings.end(); ++mapping) {
    const auto [thin, data] = *mapping;
    if (!runs.empty() && runs.back().thin_begin + runs.back().length == thin &&
        runs.back().data_begin + runs.back().length == data) {
      ++runs.back().length;
    } else {
      runs.push_back({thin, data, 1});
    }
  }
  return runs;
}

// The message of the error that reading everything of these blocks gives; "" if there is none.
std::string Damage(std::vector<BlockBytes> blocks) {
  auto reader = MetadataReader::Open(std::make_shared<MemoryBlocks>(std::move(blocks)), Root::kLive, Call{});
  if (!reader.has_value()) {
    return reader.error().message();
  }
  const auto devices = reader->Devices(Call{});
  if (!devices.has_value()) {
    return devices.error().message();
  }
  for (const Device& device : *devices) {
    const auto status = reader->Walk(device.id, 0, [](const MappingRun&) { return true; }, Call{});
    if (!status.has_value()) {
      EXPECT_EQ(status.error().code(), Code::kCorrupt);
      return status.error().message();
    }
  }
  return "";
}

void Put(BlockBytes& bytes, size_t offset, size_t width, uint64_t value) {
  std::memcpy(bytes.data() + offset, &value, width);
}

// Device 1 with 100 mappings in nodes of 6: a tree of three levels.
MetadataImage HighTree() {
  MetadataImage image(6);
  image.Create(1);
  for (uint64_t block = 0; block < 100; ++block) {
    image.Map(1, block * 2);
  }
  return image;
}

TEST(MetadataReaderTest, TheSuperblockIsReadFieldByField) {
  const MetadataImage image = HighTree();
  const auto source = image.Source();
  const Superblock superblock = MustOpen(source).superblock();
  EXPECT_EQ(superblock.transaction_id, 77u);
  EXPECT_EQ(superblock.time, 0u);
  EXPECT_FALSE(superblock.needs_check);
  EXPECT_FALSE(superblock.held_root.has_value());
  EXPECT_EQ(superblock.data_block_size, Bytes{65536});
  EXPECT_EQ(superblock.data_blocks, uint64_t{1} << 30);
  EXPECT_EQ(superblock.data_blocks_used, 100u);
  EXPECT_EQ(superblock.metadata_blocks, source->blocks());
}

TEST(MetadataReaderTest, NeedsCheckIsReported) {
  auto blocks = HighTree().Blocks();
  Put(blocks[0], 4, 4, 1);
  testing::SealSuperblock(blocks[0], 0);
  EXPECT_TRUE(MustOpen(std::make_shared<MemoryBlocks>(blocks)).superblock().needs_check);
}

TEST(MetadataReaderTest, VersionsOfTheKernelAndOfTheToolsAreRead) {
  auto blocks = HighTree().Blocks();
  for (const uint64_t version : {0, 1, 2, 3}) {
    Put(blocks[0], 40, 4, version);
    testing::SealSuperblock(blocks[0], 0);
    const auto reader = MetadataReader::Open(std::make_shared<MemoryBlocks>(blocks), Root::kLive, Call{});
    ASSERT_EQ(reader.has_value(), version == 1 || version == 2) << version;
    EXPECT_TRUE(reader.has_value() || reader.error().code() == Code::kUnsupported);
  }
}

TEST(MetadataReaderTest, TheMetadataSnapshotIsReadInsteadOfTheLivePool) {
  const MetadataImage image = HighTree();
  MetadataReader held = MustOpen(image.Source(true), Root::kHeld);
  EXPECT_EQ(held.superblock().transaction_id, 77u);
  EXPECT_EQ(held.superblock().held_root, MetadataImage::kHeldRoot);
  EXPECT_EQ(held.superblock().data_blocks, uint64_t{1} << 30);
  EXPECT_EQ(held.Devices(Call{})->size(), 1u);
  MetadataReader live = MustOpen(image.Source(true));
  EXPECT_EQ(live.superblock().transaction_id, 78u);
  EXPECT_TRUE(live.Devices(Call{})->empty());
}

TEST(MetadataReaderTest, WithoutAMetadataSnapshotTheRemedyIsNamed) {
  const auto reader = MetadataReader::Open(HighTree().Source(), Root::kHeld, Call{});
  ASSERT_FALSE(reader.has_value());
  EXPECT_EQ(reader.error().code(), Code::kPrecondition);
  EXPECT_THAT(reader.error().message(), HasSubstr("reserve_metadata_snap"));
}

// Gives a torn live superblock a number of times.
class TornBlocks final : public BlockSource {
 public:
  TornBlocks(std::shared_ptr<MemoryBlocks> whole, int times) : whole_(std::move(whole)), times_(times) {}
  uint64_t blocks() const override { return whole_->blocks(); }
  Status Read(uint64_t block, std::span<std::byte> memory) override {
    QUARRY_TRY(whole_->Read(block, memory));
    if (block == 0 && times_-- > 0) {
      memory[600] = std::byte{1};
    }
    return Ok();
  }

 private:
  std::shared_ptr<MemoryBlocks> whole_;
  int times_;
};

TEST(MetadataReaderTest, ATornLiveSuperblockIsReadAgain) {
  EXPECT_TRUE(MetadataReader::Open(std::make_shared<TornBlocks>(HighTree().Source(), 2), Root::kLive, Call{})
                  .has_value());
  const auto broken =
      MetadataReader::Open(std::make_shared<TornBlocks>(HighTree().Source(), 3), Root::kLive, Call{});
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code(), Code::kCorrupt);
}

TEST(MetadataReaderTest, AnUnknownDeviceIsNotFound) {
  MetadataReader reader = MustOpen(HighTree().Source());
  EXPECT_EQ(reader.FindDevice(2, Call{}).error().code(), Code::kNotFound);
  EXPECT_EQ(
      reader.Walk(0, 0, [](const MappingRun&) { return true; }, Call{}).error().code(), Code::kNotFound);
}

TEST(MetadataReaderTest, ADeviceWithoutMappingsHasNoRun) {
  MetadataImage image;
  image.Create(5);
  MetadataReader reader = MustOpen(image.Source());
  EXPECT_TRUE(RunsOf(reader, 5).empty());
}

TEST(MetadataReaderTest, AVisitorEndsTheWalk) {
  MetadataReader reader = MustOpen(HighTree().Source());
  int runs = 0;
  ASSERT_TRUE(reader.Walk(1, 0, [&](const MappingRun&) { return ++runs < 3; }, Call{}).has_value());
  EXPECT_EQ(runs, 3);
  EXPECT_LE(reader.reads(), 8u);
}

RC_GTEST_PROP(MetadataReaderPropertyTest, DevicesAndRunsAreThoseOfTheHistory, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 40, 120);
  MetadataReader reader = MustOpen(image.Source(true), Root::kHeld);
  const auto devices = reader.Devices(Call{});
  RC_ASSERT(devices.has_value());
  RC_ASSERT(*devices == image.devices());
  const uint64_t from = *rc::gen::inRange<uint64_t>(0, 140);
  for (const auto& [id, mappings] : image.model()) {
    RC_ASSERT(RunsOf(reader, id) == RunsOf(mappings));
    RC_ASSERT(RunsOf(reader, id, from) == RunsOf(mappings, from));
    RC_ASSERT(reader.FindDevice(id, Call{})->mapped_blocks == mappings.size());
  }
}

TEST(MetadataReaderTest, StartingLateReadsOnlyThePathToThere) {
  MetadataImage image;
  image.CreateMapped(1, 20000);
  MetadataReader reader = MustOpen(image.Source());
  const auto before = reader.reads();
  EXPECT_EQ(RunsOf(reader, 1, 19999), (std::vector<MappingRun>{{19999, 19999, 1}}));
  EXPECT_LE(reader.reads() - before, 3u);
}

TEST(MetadataReaderTest, TheLimitOfReadsIsKept) {
  auto reader = MetadataReader::Open(HighTree().Source(), Root::kLive, Call{}, 5);
  ASSERT_TRUE(reader.has_value());
  const auto status = reader->Walk(1, 0, [](const MappingRun&) { return true; }, Call{});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), Code::kOutOfRange);
  EXPECT_EQ(reader->reads(), 5u);
}

TEST(MetadataReaderTest, AnEndedCallEndsTheWalk) {
  MetadataReader reader = MustOpen(HighTree().Source());
  const Call ended{.deadline = SteadyTime::min()};
  const auto status = reader.Walk(1, 0, [](const MappingRun&) { return true; }, ended);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), Code::kTimeout);
}

TEST(MetadataDamageTest, EveryFlippedBitOfAUsedBlockIsNoticed) {
  const MetadataImage image = HighTree();
  const auto whole = image.Blocks();
  ASSERT_EQ(Damage(whole), "");
  std::set<uint64_t> used = image.NodesOf(1);
  used.insert({0, whole.size() - 1, whole.size() - 2});
  for (const uint64_t block : used) {
    // Every third byte in the head, then here and there.
    for (size_t at = 0; at < kBlockSize; at += at < 400 ? 3 : 97) {
      auto blocks = whole;
      blocks[block][at] ^= std::byte{1} << (at % 8);
      EXPECT_THAT(Damage(blocks), HasSubstr("metadata block " + std::to_string(block) + ":")) << at;
    }
  }
}

TEST(MetadataDamageTest, ABlockInAnotherPlaceIsRefused) {
  const MetadataImage image = HighTree();
  auto blocks = image.Blocks();
  const uint64_t root = image.RootOf(1), other = *image.NodesOf(1).begin();
  ASSERT_NE(root, other);
  blocks[root] = blocks[other];
  EXPECT_THAT(Damage(blocks), HasSubstr("it says that it is block " + std::to_string(other)));
}

struct Wrong {
  const char* name;
  size_t offset, width;
  uint64_t value;
  const char* words;
};

class WrongNode : public ::testing::TestWithParam<Wrong> {};

// Of the root of device 1, an inner node: a checksum that was made for wrong contents.
TEST_P(WrongNode, IsRefusedDespiteItsChecksum) {
  const MetadataImage image = HighTree();
  auto blocks = image.Blocks();
  const uint64_t root = image.RootOf(1);
  const auto& [name, offset, width, value, words] = GetParam();
  Put(blocks[root], offset, width, value);
  testing::SealNode(blocks[root], root);
  EXPECT_THAT(Damage(blocks), HasSubstr(words));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongNode,
    ::testing::Values(Wrong{"flags", 4, 4, 3, "neither an inner node nor a leaf"},
                      Wrong{"no_flags", 4, 4, 0, "neither an inner node nor a leaf"},

                      Wrong{"no_entries", 16, 4, 0, "an inner node without entries"},
                      Wrong{"too_many_entries", 16, 4, 7, "7 of at most 6 entries do not fit"},
                      Wrong{"too_large", 20, 4, 255, "of at most 255 entries do not fit"},
                      Wrong{"much_too_large", 20, 4, UINT32_MAX, "entries do not fit"},
                      Wrong{"value_size", 24, 4, 16, "values of 16 bytes, must be of 8"},
                      Wrong{"keys", 32, 8, 1000, "after key 1000"},
                      Wrong{"child_beyond_the_end", 32 + 6 * 8, 8, 1 << 20, "the metadata has only"},
                      Wrong{"child_is_the_superblock", 32 + 6 * 8, 8, 0, "metadata block 0"}),
    [](const auto& wrong) { return wrong.param.name; });

TEST(MetadataDamageTest, ACycleIsRefused) {
  const MetadataImage image = HighTree();
  auto blocks = image.Blocks();
  const uint64_t root = image.RootOf(1);
  Put(blocks[root], 32 + 6 * 8, 8, root);
  testing::SealNode(blocks[root], root);
  EXPECT_THAT(Damage(blocks), HasSubstr("a node of a tree is below itself"));
}

TEST(MetadataDamageTest, ASubtreeInAnotherPlaceIsRefused) {
  const MetadataImage image = HighTree();
  auto blocks = image.Blocks();
  const uint64_t root = image.RootOf(1);
  uint64_t second = 0;
  std::memcpy(&second, blocks[root].data() + 32 + 7 * 8, 8);
  Put(blocks[root], 32 + 6 * 8, 8, second);
  testing::SealNode(blocks[root], root);
  EXPECT_THAT(Damage(blocks), HasSubstr("but the node above has it for 0 to"));
}

TEST(MetadataDamageTest, AChainWithoutEndIsRefused) {
  MetadataImage image(6);
  image.Create(1);
  auto blocks = image.Blocks();
  uint64_t above = image.RootOf(1);
  for (int i = 0; i < 40; ++i) {
    const uint64_t below = blocks.size();
    for (const auto& [offset, width, value] :
         {std::tuple<size_t, size_t, uint64_t>{4, 4, 1}, {16, 4, 1}, {24, 4, 8}, {32 + 6 * 8, 8, below}}) {
      Put(blocks[above], offset, width, value);
    }
    Put(blocks[above], 20, 4, 6);
    testing::SealNode(blocks[above], above);
    blocks.emplace_back();
    above = below;
  }
  EXPECT_THAT(Damage(blocks), HasSubstr("more than 15 levels"));
}

TEST(MetadataDamageTest, LeavesAtDifferentDepthsAreRefused) {
  const MetadataImage image = HighTree();
  auto blocks = image.Blocks();
  const uint64_t root = image.RootOf(1);
  // The second child of the root becomes a leaf.
  uint64_t second = 0;
  std::memcpy(&second, blocks[root].data() + 32 + 7 * 8, 8);
  Put(blocks[second], 4, 4, 2);
  testing::SealNode(blocks[second], second);
  EXPECT_THAT(Damage(blocks), HasSubstr("a leaf at depth 1"));
}

TEST(MetadataDamageTest, AMappingBeyondTheDataIsRefused) {
  MetadataImage image(6);
  image.Create(1);
  image.Map(1, 3, 50);
  auto blocks = image.Blocks();
  Put(blocks[0], 64, 8, 50);
  Put(blocks[0], 72, 8, 0);
  testing::SealSuperblock(blocks[0], 0);
  EXPECT_THAT(Damage(blocks), HasSubstr("thin block 3 is mapped to data block 50, the pool has 50"));
}

TEST(MetadataDamageTest, ADeviceWithoutMappingTreeIsRefused) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  auto blocks = image.Blocks();
  const uint64_t mapping_root = blocks.size() - 2;
  Put(blocks[mapping_root], 16, 4, 1);
  testing::SealNode(blocks[mapping_root], mapping_root);
  EXPECT_THAT(Damage(blocks), HasSubstr("thin device 2 does not follow in both trees"));
}

TEST(MetadataDamageTest, AnEmptyFileIsRefused) {
  EXPECT_THAT(Damage({}), HasSubstr("metadata block 0: the metadata has only 0 blocks"));
  EXPECT_THAT(Damage({BlockBytes{}}), HasSubstr("no magic number of a thin pool"));
}

}  // namespace
}  // namespace quarry::thin
