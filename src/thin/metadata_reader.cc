#include "thin/metadata_reader.h"

#include <utility>

#include <fmt/format.h>

namespace quarry::thin {
namespace {

constexpr uint64_t kSuperblock = 0;
constexpr int kSuperblockTries = 3;
constexpr size_t kRootSize = 8, kMappingSize = 8, kDetailsSize = 24;
// Offsets in the details of a device.
constexpr size_t kTransactionAt = 8, kTimesAt = 16;
constexpr int kSecondTime = 32;  // the upper half of the 8 bytes with both times

Result<Superblock> ReadSuperblock(NodeReader& nodes, uint64_t block, const Call& call) {
  QUARRY_ASSIGN(const DirectBuffer bytes, nodes.ReadFresh(block, call));
  return ParseSuperblock(std::span<const std::byte, kBlockSize>(bytes.get(), kBlockSize), block);
}

// An active pool writes its superblock at each commit, so a read may get half of it.
Result<Superblock> ReadLiveSuperblock(NodeReader& nodes, const Call& call) {
  for (int i = 1;; ++i) {
    auto superblock = ReadSuperblock(nodes, kSuperblock, call);
    if (superblock.has_value() || superblock.error().code() != Code::kCorrupt || i == kSuperblockTries) {
      return superblock;
    }
  }
}

Error NoDevice(DeviceId id) {
  return {Code::kNotFound, fmt::format("the pool has no thin device {}", id)};
}

Result<DeviceId> IdAt(const TreeCursor& cursor) {
  if (cursor.key() > kMaxDeviceId) {
    return Error(Code::kCorrupt, fmt::format("metadata block {}: device id {} has more than 24 bits",
                                             cursor.leaf(), cursor.key()));
  }
  return static_cast<DeviceId>(cursor.key());
}

Device DetailsAt(const TreeCursor& cursor, DeviceId id) {
  const uint64_t times = cursor.value(kTimesAt);
  return {.id = id,
          .mapped_blocks = cursor.value(),
          .transaction_id = cursor.value(kTransactionAt),
          .creation_time = static_cast<uint32_t>(times),
          .snapshotted_time = static_cast<uint32_t>(times >> kSecondTime)};
}

}  // namespace

Result<MetadataReader> MetadataReader::Open(std::shared_ptr<BlockSource> source, Root root, const Call& call,
                                            uint64_t max_reads) {
  NodeReader nodes(std::move(source), max_reads);
  QUARRY_ASSIGN(const Superblock live, ReadLiveSuperblock(nodes, call));
  if (root == Root::kLive) {
    return MetadataReader(std::move(nodes), live);
  }
  if (!live.held_root.has_value()) {
    return Error(Code::kPrecondition,
                 "the pool holds no metadata snapshot: send it the message reserve_metadata_snap first");
  }
  QUARRY_ASSIGN(Superblock held, ReadSuperblock(nodes, *live.held_root, call));
  held.held_root = live.held_root;
  held.data_blocks = live.data_blocks;
  held.data_blocks_used = live.data_blocks_used;
  held.metadata_blocks = live.metadata_blocks;
  held.metadata_blocks_used = live.metadata_blocks_used;
  return MetadataReader(std::move(nodes), held);
}

Result<std::vector<Device>> MetadataReader::Devices(const Call& call) {
  QUARRY_ASSIGN(const std::vector<DeviceTree> trees, Trees(call));
  std::vector<Device> devices;
  TreeCursor cursor(nodes_, superblock_.details_root, kDetailsSize);
  while (true) {
    QUARRY_ASSIGN(const bool more, cursor.ToEntry(call));
    const size_t i = devices.size();
    if (!more && i == trees.size()) {
      return devices;
    }
    if (!more) {
      return Error(Code::kCorrupt, fmt::format("thin device {} has mappings, but no details", trees[i].id));
    }
    QUARRY_ASSIGN(const DeviceId id, IdAt(cursor));
    if (i == trees.size() || trees[i].id != id) {
      return Error(Code::kCorrupt,
                   fmt::format("thin device {} does not follow in both trees of devices", id));
    }
    devices.push_back(DetailsAt(cursor, id));
    cursor.Skip();
  }
}

Result<Device> MetadataReader::FindDevice(DeviceId id, const Call& call) {
  TreeCursor cursor(nodes_, superblock_.details_root, kDetailsSize, id);
  QUARRY_ASSIGN(const bool found, cursor.ToEntry(call));
  if (!found || cursor.key() != id) {
    return NoDevice(id);
  }
  return DetailsAt(cursor, id);
}

Result<std::vector<MetadataReader::DeviceTree>> MetadataReader::Trees(const Call& call) {
  std::vector<DeviceTree> trees;
  TreeCursor cursor(nodes_, superblock_.mapping_root, kRootSize);
  while (true) {
    QUARRY_ASSIGN(const bool more, cursor.ToEntry(call));
    if (!more) {
      return trees;
    }
    QUARRY_ASSIGN(const DeviceId id, IdAt(cursor));
    trees.push_back({id, cursor.value()});
    cursor.Skip();
  }
}

Result<MetadataReader::DeviceTree> MetadataReader::FindTree(DeviceId id, const Call& call) {
  TreeCursor cursor(nodes_, superblock_.mapping_root, kRootSize, id);
  QUARRY_ASSIGN(const bool found, cursor.ToEntry(call));
  if (!found || cursor.key() != id) {
    return NoDevice(id);
  }
  return DeviceTree{id, cursor.value()};
}

TreeCursor MetadataReader::Mappings(const DeviceTree& tree, uint64_t from) {
  return {nodes_, tree.root, kMappingSize, from};
}

Result<uint64_t> MetadataReader::DataBlock(const TreeCursor& cursor) const {
  const uint64_t block = cursor.value() >> kTimeBits;
  if (block >= superblock_.data_blocks) {
    return Error(Code::kCorrupt,
                 fmt::format("metadata block {}: thin block {} is mapped to data block {}, the pool has {}",
                             cursor.leaf(), cursor.key(), block, superblock_.data_blocks));
  }
  return block;
}

Status MetadataReader::Walk(DeviceId id, uint64_t from, const MappingVisitor& visit, const Call& call) {
  QUARRY_ASSIGN(const DeviceTree tree, FindTree(id, call));
  TreeCursor cursor = Mappings(tree, from);
  MappingRun run;
  while (true) {
    QUARRY_ASSIGN(const bool more, cursor.ToEntry(call));
    if (!more) {
      break;
    }
    QUARRY_ASSIGN(const uint64_t data, DataBlock(cursor));
    if (cursor.key() == run.thin_begin + run.length && data == run.data_begin + run.length &&
        run.length != 0) {
      ++run.length;
    } else {
      if (run.length != 0 && !visit(run)) {
        return Ok();
      }
      run = {cursor.key(), data, 1};
    }
    cursor.Skip();
  }
  if (run.length != 0) {
    visit(run);
  }
  return Ok();
}

}  // namespace quarry::thin
