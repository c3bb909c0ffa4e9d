#include "thin/node_reader.h"

#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/thin/metadata_image.h"
#include "thin/metadata_reader.h"

namespace quarry::thin {
namespace {

using testing::MetadataImage;

// Like a disk: several blocks cost as much as one, and one block may be unreadable.
class Disk final : public BlockSource {
 public:
  explicit Disk(std::shared_ptr<testing::MemoryBlocks> blocks) : blocks_(std::move(blocks)) {}
  uint64_t blocks() const override { return blocks_->blocks(); }
  uint64_t read_ahead() const override { return 64; }
  Status Read(uint64_t first, std::span<std::byte> memory) override {
    ++requests;
    if (bad_block >= first && bad_block < first + memory.size() / kBlockSize) {
      return Error(Code::kIo, "unreadable");
    }
    return blocks_->Read(first, memory);
  }

  int requests = 0;
  uint64_t bad_block = UINT64_MAX;

 private:
  std::shared_ptr<testing::MemoryBlocks> blocks_;
};

MetadataImage Large() {
  MetadataImage image(12);
  image.Create(1);
  for (uint64_t block = 0; block < 20000; ++block) {
    if (block == 10000) {
      image.Create(2);  // one node of another device between them
    }
    image.Map(1, block);
  }
  return image;
}

uint64_t Mapped(MetadataReader& reader) {
  uint64_t blocks = 0;
  const Status walked =
      reader.Walk(1, 0, [&](const MappingRun& run) { return blocks += run.length, true; }, Call{});
  return walked.has_value() ? blocks : 0;
}

TEST(NodeReaderTest, NeighboursAreReadTogether) {
  const auto disk = std::make_shared<Disk>(Large().Source(true));
  auto reader = MetadataReader::Open(disk, Root::kHeld, Call{});
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(Mapped(*reader), 20000u);
  EXPECT_GT(reader->reads(), 3000u);
  EXPECT_LT(disk->requests, 300);
}

// Each block by itself is readable, although no window with the bad one is.
TEST(NodeReaderTest, AnUnreadableNeighbourDoesNotMatter) {
  const MetadataImage image = Large();
  const auto disk = std::make_shared<Disk>(image.Source(true));
  disk->bad_block = image.RootOf(2);
  auto reader = MetadataReader::Open(disk, Root::kHeld, Call{});
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(Mapped(*reader), 20000u);
}

TEST(NodeReaderTest, AnUnreadableNodeIsNamed) {
  const MetadataImage image = Large();
  const auto disk = std::make_shared<Disk>(image.Source(true));
  disk->bad_block = *std::next(image.NodesOf(1).begin(), 500);
  auto reader = MetadataReader::Open(disk, Root::kHeld, Call{});
  ASSERT_TRUE(reader.has_value());
  const Status walked = reader->Walk(1, 0, [](const MappingRun&) { return true; }, Call{});
  ASSERT_FALSE(walked.has_value());
  EXPECT_EQ(walked.error().code(), Code::kIo);
  EXPECT_EQ(walked.error().message(), "metadata block " + std::to_string(disk->bad_block) + ": unreadable");
}

// Nodes that lie apart are not worth windows of 64.
TEST(NodeReaderTest, FarNodesAreReadWithFewerNeighbours) {
  const MetadataImage image = Large();
  const auto memory = image.Source(true);
  NodeReader nodes(std::make_shared<Disk>(memory), UINT64_MAX);
  uint64_t wanted = 0;
  for (uint64_t block = 2; block < memory->blocks() - 64; block += 61) {
    (void)nodes.ReadNode(block, 8, Call{});
    ++wanted;
  }
  uint64_t read = 0;
  for (const auto& [block, times] : memory->read) {
    read += times;
  }
  EXPECT_LE(read, wanted * 32);
}

}  // namespace
}  // namespace quarry::thin
