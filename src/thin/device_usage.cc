#include "thin/device_usage.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "thin/block_set.h"
#include "thin/pool_reader.h"

namespace quarry::thin {
namespace {

using Tree = MetadataReader::DeviceTree;

bool IsAsked(std::span<const DeviceId> ids, DeviceId id) {
  return std::ranges::find(ids, id) != ids.end();
}

// The data blocks that at least two devices map.
class SharedBlocks {
 public:
  explicit SharedBlocks(uint64_t nodes) : visited_(nodes), visited_again_(nodes) {}

  // To be called once for each device of the pool. Returns how many mappings it has in nodes that were read.
  Result<uint64_t> Add(MetadataReader& reader, const Tree& tree, const Call& call) {
    TreeCursor cursor = reader.Mappings(tree);
    uint64_t mappings = 0;
    while (!cursor.at_end()) {
      if (cursor.at_entry()) {
        QUARRY_ASSIGN(const uint64_t block, reader.DataBlock(cursor));
        if (seen_.Contains(block)) {
          shared_.Insert(block);
        } else {
          seen_.Insert(block);
        }
        ++mappings;
        cursor.Skip();
        continue;
      }
      const uint64_t node = cursor.block();
      if (IsShared(node)) {
        cursor.Skip();  // its blocks, and those below, are in shared_ already
        continue;
      }
      QUARRY_TRY(cursor.Enter(call));  // refuses a node beyond the metadata, so the bits exist
      (visited_[node] ? visited_again_ : visited_)[node] = true;
    }
    return mappings;
  }

  // After all devices were added: how many blocks of this device no other one has.
  Result<uint64_t> CountOthers(MetadataReader& reader, const Tree& tree, const Call& call) const {
    TreeCursor cursor = reader.Mappings(tree);
    uint64_t blocks = 0;
    while (!cursor.at_end()) {
      if (cursor.at_entry()) {
        QUARRY_ASSIGN(const uint64_t block, reader.DataBlock(cursor));
        blocks += shared_.Contains(block) ? 0 : 1;
        cursor.Skip();
      } else if (IsShared(cursor.block())) {
        cursor.Skip();
      } else {
        QUARRY_TRY(cursor.Enter(call));
      }
    }
    return blocks;
  }

  bool empty() const { return shared_.empty(); }

 private:
  bool IsShared(uint64_t node) const { return node < visited_again_.size() && visited_again_[node]; }

  BlockSet seen_, shared_;
  std::vector<bool> visited_, visited_again_;  // nodes that one device has; that at least two have
};

Result<MetadataReader> OpenHeld(const std::string& path, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> metadata, OpenMetadataDevice(path));
  return MetadataReader::Open(std::move(metadata), Root::kHeld, call);
}

}  // namespace

Result<std::map<DeviceId, Bytes>> FindMappedBytes(MetadataReader& reader, std::span<const DeviceId> ids,
                                                  const Call& call) {
  QUARRY_ASSIGN(const std::vector<Device> devices, reader.Devices(call));
  std::map<DeviceId, Bytes> out;
  for (const Device& device : devices) {
    if (IsAsked(ids, device.id)) {
      out[device.id] = Bytes{device.mapped_blocks * reader.superblock().data_block_size.value};
    }
  }
  return out;
}

Result<std::map<DeviceId, Bytes>> CountExclusive(MetadataReader& reader, std::span<const DeviceId> ids,
                                                 const Call& call) {
  // Devices, not only trees: a device that is in one of the two trees only is damage.
  QUARRY_TRY(reader.Devices(call));
  QUARRY_ASSIGN(const std::vector<Tree> trees, reader.Trees(call));
  SharedBlocks shared(reader.nodes().blocks());
  std::map<DeviceId, uint64_t> blocks;
  for (const Tree& tree : trees) {
    QUARRY_ASSIGN(blocks[tree.id],
                  shared.Add(reader, tree, call).Context(fmt::format("thin device {}", tree.id)));
  }
  std::map<DeviceId, Bytes> out;
  for (const Tree& tree : trees) {
    if (!IsAsked(ids, tree.id)) {
      continue;
    }
    uint64_t own = blocks[tree.id];
    if (!shared.empty()) {
      QUARRY_ASSIGN(own,
                    shared.CountOthers(reader, tree, call).Context(fmt::format("thin device {}", tree.id)));
    }
    out[tree.id] = Bytes{own * reader.superblock().data_block_size.value};
  }
  return out;
}

Result<std::map<uint32_t, Bytes>> PoolReader::MappedBytes(const std::string& metadata,
                                                          std::span<const uint32_t> ids, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, OpenHeld(metadata, call).Context(metadata));
  return FindMappedBytes(reader, ids, call).Context(metadata);
}

Result<std::map<uint32_t, Bytes>> PoolReader::ExclusiveBytes(const std::string& metadata,
                                                             std::span<const uint32_t> ids,
                                                             const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, OpenHeld(metadata, call).Context(metadata));
  return CountExclusive(reader, ids, call).Context(metadata);
}

}  // namespace quarry::thin
