#include "thin/walked_ranges.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "thin/difference.h"

namespace quarry::thin {
namespace {

// Collects runs of blocks, in order, as at most `most` ranges of bytes.
class Collector {
 public:
  Collector(Bytes block, size_t most) : block_(block.value), most_(most) {}

  // False: the ranges are full, and the run is not among them.
  Result<bool> Add(uint64_t begin, uint64_t length) {
    if (begin > (UINT64_MAX / block_) - length) {
      return Error(Code::kCorrupt, fmt::format("a thin device has a mapping for block {}", begin));
    }
    const Bytes at{begin * block_};
    const Bytes bytes{length * block_};
    if (!out_.ranges.empty() && out_.ranges.back().end() == at) {
      out_.ranges.back().length = out_.ranges.back().length + bytes;
    } else if (out_.ranges.size() == most_) {
      full_ = true;
      return false;
    } else {
      out_.ranges.push_back({at, bytes});
    }
    return true;
  }

  // The walk has ended. `next`: the block from which it can go on; kWholeDevice: none.
  WalkedRanges Finish(uint64_t next) {
    if (full_) {
      out_.end = out_.ranges.back().end();
    } else if (next != kWholeDevice) {
      out_.end = {std::min(next, UINT64_MAX / block_) * block_};
    } else {
      out_.whole = true;
      out_.end = {UINT64_MAX};
    }
    return std::move(out_);
  }

 private:
  uint64_t block_;
  size_t most_;
  bool full_ = false;
  WalkedRanges out_;
};

}  // namespace

Result<WalkedRanges> FindAllocated(std::shared_ptr<BlockSource> metadata, DeviceId id, Bytes from,
                                   const WalkLimit& limit, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(metadata), Root::kHeld, call));
  const Bytes block = reader.superblock().data_block_size;
  const uint64_t first = from.value / block.value;
  QUARRY_ASSIGN(const MetadataReader::DeviceTree tree, reader.FindTree(id, call));
  Collector collector(block, limit.ranges);
  TreeCursor cursor = reader.Mappings(tree, first);
  while (!cursor.at_end()) {
    if (cursor.at_node()) {
      if (reader.reads() >= limit.reads && cursor.low() > first) {
        return collector.Finish(cursor.low());
      }
      const Status entered = cursor.Enter(call);
      if (!entered.has_value() && IsEndOfCall(entered.error()) && cursor.low() > first) {
        return collector.Finish(cursor.low());
      }
      QUARRY_TRY(entered);
      continue;
    }
    QUARRY_TRY(reader.DataBlock(cursor));
    QUARRY_ASSIGN(const bool more, collector.Add(cursor.key(), 1));
    if (!more) {
      break;
    }
    cursor.Skip();
  }
  return collector.Finish(kWholeDevice);
}

Result<WalkedRanges> FindDifferent(std::shared_ptr<BlockSource> metadata, DeviceId base, DeviceId target,
                                   Bytes from, const WalkLimit& limit, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, MetadataReader::Open(std::move(metadata), Root::kHeld, call));
  const Bytes block = reader.superblock().data_block_size;
  Collector collector(block, limit.ranges);
  std::optional<Error> refused;
  const auto visit = [&](const ChangedRun& run) {
    Result<bool> more = collector.Add(run.thin_begin, run.length);
    if (!more.has_value()) {
      refused = std::move(more.error());
    }
    return more.has_value() && *more;
  };
  QUARRY_ASSIGN(const uint64_t next,
                WalkDifference(reader, base, target, from.value / block.value, visit, call, limit.reads));
  if (refused.has_value()) {
    return std::move(*refused);
  }
  return collector.Finish(next);
}

}  // namespace quarry::thin
