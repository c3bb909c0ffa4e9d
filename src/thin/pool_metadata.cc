#include "thin/pool_metadata.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "thin/exclusive.h"
#include "thin/pool_reader.h"
#include "thin/walked_ranges.h"

namespace quarry::thin {
namespace {

// The pool's time at which a block was mapped: the low bits of the value of a mapping.
uint64_t MappedAt(uint64_t mapping) {
  return mapping & ((uint64_t{1} << kTimeBits) - 1);
}

// True: it is there. False: kNotFound.
template <typename T>
Result<bool> IsThere(Result<T> found) {
  if (found.has_value() || found.error().code() == Code::kNotFound) {
    return found.has_value();
  }
  return std::move(found.error());
}

}  // namespace

Result<ExclusiveRanges> ExclusiveRanges::Find(const std::string& path, std::span<const DeviceId> doomed,
                                              const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> metadata, OpenMetadataDevice(path));
  return Find(std::move(metadata), doomed, call).Context(path);
}

Result<ExclusiveRanges> ExclusiveRanges::Find(std::shared_ptr<BlockSource> metadata,
                                              std::span<const DeviceId> doomed, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(metadata), Root::kHeld, call));
  const Superblock& superblock = reader.superblock();
  if (superblock.data_blocks > UINT64_MAX / superblock.data_block_size.value) {
    return Error(Code::kCorrupt, fmt::format("a data device of {} blocks of {} bytes", superblock.data_blocks,
                                             superblock.data_block_size.value));
  }
  QUARRY_ASSIGN(BlockSet blocks, FindExclusive(reader, doomed, call));
  return ExclusiveRanges(std::move(blocks), superblock.data_block_size);
}

std::optional<ByteRange> ExclusiveRanges::Next(Bytes from, Bytes largest) const {
  const auto run = blocks_.NextRun(from.value / block_size_.value);
  if (!run.has_value()) {
    return std::nullopt;
  }
  const Bytes begin{std::max(from.value, run->begin * block_size_.value)};
  const Bytes end{(run->begin + run->length) * block_size_.value};
  return ByteRange{begin, std::min(end - begin, largest)};
}

Result<std::optional<Bytes>> BytesOfDevice(const std::string& path, DeviceId id, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> metadata, OpenMetadataDevice(path));
  return BytesOfDevice(std::move(metadata), id, call).Context(path);
}

Result<std::optional<Bytes>> BytesOfDevice(std::shared_ptr<BlockSource> metadata, DeviceId id,
                                           const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(metadata), Root::kHeld, call));
  const Result<Device> device = reader.FindDevice(id, call);
  QUARRY_ASSIGN(const bool has_details, IsThere(device));
  QUARRY_ASSIGN(const bool has_mappings, IsThere(reader.FindTree(id, call)));
  if (has_details != has_mappings) {
    return Error(Code::kCorrupt,
                 fmt::format("thin device {} has {}", id,
                             has_details ? "details, but no mappings" : "mappings, but no details"));
  }
  if (!has_details) {
    return std::optional<Bytes>();
  }
  const uint64_t block = reader.superblock().data_block_size.value;
  if (device->mapped_blocks > UINT64_MAX / block) {
    return Error(Code::kCorrupt, fmt::format("thin device {} maps {} blocks", id, device->mapped_blocks));
  }
  return std::optional(Bytes{device->mapped_blocks * block});
}

Result<MappedRanges> FindMapped(const std::string& path, DeviceId id, Bytes from, const WalkLimit& limit,
                                const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> metadata, OpenMetadataDevice(path));
  return FindMapped(std::move(metadata), id, from, limit, call).Context(path);
}

Result<MappedRanges> FindMapped(std::shared_ptr<BlockSource> metadata, DeviceId id, Bytes from,
                                const WalkLimit& limit, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(metadata), Root::kHeld, call));
  QUARRY_ASSIGN(const Device device, reader.FindDevice(id, call));
  const uint64_t block = reader.superblock().data_block_size.value;
  // Both times begin as that of the pool, which each snapshot in it advances (dm-thin-metadata.c,
  // __open_device).
  MappedRanges out{.whole = true, .was_shared = device.snapshotted_time > device.creation_time};
  QUARRY_ASSIGN(const MetadataReader::DeviceTree tree, reader.FindTree(id, call));
  TreeCursor cursor = reader.Mappings(tree, from.value / block);
  while (!cursor.at_end()) {
    if (cursor.at_node()) {
      if (reader.reads() >= limit.reads && !out.ranges.empty()) {
        out.whole = false;
        break;
      }
      Status entered = cursor.Enter(call);
      if (!entered.has_value() && entered.error().code() == Code::kTimeout && !out.ranges.empty()) {
        out.whole = false;  // slow disks get on, too
        break;
      }
      QUARRY_TRY(std::move(entered));
      continue;
    }
    QUARRY_TRY(reader.DataBlock(cursor));
    // The kernel's own rule for a chunk that a write would copy (__snapshotted_since).
    out.was_shared = out.was_shared || MappedAt(cursor.value()) < device.snapshotted_time;
    const Bytes at{cursor.key() * block};
    if (!out.ranges.empty() && out.ranges.back().end() == at) {
      out.ranges.back().length = out.ranges.back().length + Bytes{block};
    } else if (out.ranges.size() == limit.ranges) {
      out.whole = false;
      break;
    } else {
      out.ranges.push_back({at, {block}});
    }
    cursor.Skip();
  }
  out.end = out.ranges.empty() ? from : out.ranges.back().end();
  return out;
}

Result<std::optional<Bytes>> PoolReader::Device(const std::string& metadata, uint32_t id, const Call& call) {
  return BytesOfDevice(metadata, id, call);
}

Result<uint64_t> PoolReader::CreationTime(const std::string& metadata, uint32_t id, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> source, OpenMetadataDevice(metadata));
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(source), Root::kHeld, call));
  QUARRY_ASSIGN(const thin::Device device, reader.FindDevice(id, call));
  return device.creation_time;
}

Result<MappedRanges> PoolReader::Mapped(const std::string& metadata, uint32_t id, Bytes from,
                                        const WalkLimit& limit, const Call& call) {
  return FindMapped(metadata, id, from, limit, call);
}

Result<OwnRanges> PoolReader::Exclusive(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                                        const Call& call) {
  const DeviceId doomed = id;
  QUARRY_ASSIGN(const ExclusiveRanges all, ExclusiveRanges::Find(metadata, std::span(&doomed, 1), call));
  OwnRanges out;
  while (const auto range = all.Next(from, {UINT64_MAX})) {
    if (out.ranges.size() == most) {
      return out;
    }
    out.ranges.push_back(*range);
    from = range->end();
  }
  out.whole = true;
  return out;
}

Result<WalkedRanges> PoolReader::Allocated(const std::string& metadata, uint32_t id, Bytes from,
                                           const WalkLimit& limit, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> source, OpenMetadataDevice(metadata));
  return FindAllocated(std::move(source), id, from, limit, call).Context(metadata);
}

Result<WalkedRanges> PoolReader::Different(const std::string& metadata, uint32_t base, uint32_t target,
                                           Bytes from, const WalkLimit& limit, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> source, OpenMetadataDevice(metadata));
  return FindDifferent(std::move(source), base, target, from, limit, call).Context(metadata);
}

}  // namespace quarry::thin
