// Writes the metadata of a thin pool as the kernel lays it out, with snapshots that share subtrees by
// copy-on-write. It has no space maps, and nodes that are no longer used stay: readers of a metadata snapshot
// look at neither.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "thin/block_source.h"
#include "thin/metadata_reader.h"

namespace quarry::thin::testing {

using BlockBytes = std::array<std::byte, kBlockSize>;

// Writes the number of the block and the checksum of a node (or of a superblock) into it.
void SealNode(BlockBytes& bytes, uint64_t block);
void SealSuperblock(BlockBytes& bytes, uint64_t block);

// Blocks in memory. It counts how often each was read.
class MemoryBlocks final : public BlockSource {
 public:
  explicit MemoryBlocks(std::vector<BlockBytes> all) : bytes(std::move(all)) {}
  uint64_t blocks() const override { return bytes.size(); }
  Status Read(uint64_t first, std::span<std::byte> memory) override;

  std::vector<BlockBytes> bytes;
  std::map<uint64_t, int> read;
};

class MetadataImage {
 public:
  // The mappings of one device.
  using Mappings = std::map<uint64_t, uint64_t>;

  static constexpr uint64_t kHeldRoot = 1;

  // `fan_out`: entries of a node at most, of mappings and inner nodes. The kernel has 252.
  explicit MetadataImage(size_t fan_out = 252, uint64_t data_blocks = uint64_t{1} << 30)
      : fan_out_(fan_out), data_blocks_(data_blocks) {}

  void Create(DeviceId id);
  // With its first `blocks` blocks mapped, in order.
  void CreateMapped(DeviceId id, uint64_t blocks);
  void Snapshot(DeviceId origin, DeviceId id);
  void Delete(DeviceId id);
  // Each takes the next free data block if none is given.
  void Map(DeviceId id, uint64_t thin_block, std::optional<uint64_t> data_block = {});
  void Unmap(DeviceId id, uint64_t thin_block);

  // What a reader should find.
  const std::map<DeviceId, Mappings>& model() const { return model_; }
  std::vector<Device> devices() const;

  // The image. Block 0 is the live superblock; `held`: block 1 is that of a metadata snapshot.
  std::vector<BlockBytes> Blocks(bool held = false) const;
  std::shared_ptr<MemoryBlocks> Source(bool held = false) const;

  // The nodes of a device's tree, and its root.
  uint64_t RootOf(DeviceId id) const { return trees_.at(id); }
  std::set<uint64_t> NodesOf(DeviceId id) const;

 private:
  struct Node {
    bool leaf = true;
    uint64_t born = 0;
    std::vector<uint64_t> keys, values;
  };
  struct Grown {
    uint64_t node;
    std::optional<uint64_t> sibling;
  };

  uint64_t Add(Node node);
  // A node that this moment may change: the same, or a copy.
  uint64_t Own(uint64_t node);
  Grown Insert(uint64_t node, uint64_t key, uint64_t value);
  std::optional<uint64_t> Remove(uint64_t node, uint64_t key);
  void Collect(uint64_t node, std::set<uint64_t>& nodes) const;

  size_t fan_out_;
  uint64_t data_blocks_;
  uint64_t next_data_ = 0;
  uint32_t time_ = 0;
  std::map<uint64_t, Node> nodes_;
  uint64_t next_node_ = 2;
  std::map<DeviceId, uint64_t> trees_;
  std::map<DeviceId, Device> details_;
  std::map<DeviceId, Mappings> model_;
};

}  // namespace quarry::thin::testing
