#include "thin/pool_metadata.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "thin/exclusive.h"

namespace quarry::thin {
namespace {

Result<std::shared_ptr<BlockSource>> OpenDevice(const std::string& path) {
  auto file = MetadataFile::Open(path);
  if (!file.has_value()) {
    const bool absent = file.error().code() == Code::kNotFound;
    return std::move(file.error()).As(absent ? Code::kUnavailable : file.error().code());
  }
  return std::shared_ptr<BlockSource>(std::make_shared<MetadataFile>(std::move(*file)));
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
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> metadata, OpenDevice(path));
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

Result<bool> HasDevice(const std::string& path, DeviceId id, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> metadata, OpenDevice(path));
  return HasDevice(std::move(metadata), id, call).Context(path);
}

Result<bool> HasDevice(std::shared_ptr<BlockSource> metadata, DeviceId id, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(metadata), Root::kHeld, call));
  QUARRY_ASSIGN(const bool has_details, IsThere(reader.FindDevice(id, call)));
  QUARRY_ASSIGN(const bool has_mappings, IsThere(reader.FindTree(id, call)));
  if (has_details != has_mappings) {
    return Error(Code::kCorrupt,
                 fmt::format("thin device {} has {}", id,
                             has_details ? "details, but no mappings" : "mappings, but no details"));
  }
  return has_details;
}

}  // namespace quarry::thin
