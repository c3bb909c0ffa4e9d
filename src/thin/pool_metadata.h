// What is asked of the metadata of an active pool in one step: which bytes of the data device to erase, and
// whether the pool has a device.
//
// `path` is the pool's metadata device. The caller has reserved the metadata snapshot itself: a snapshot that
// an earlier process left behind shows an earlier time. The answers are those of the moment of the
// reservation.
//
// kNotFound is only said of thin devices. A metadata device that is not there is kUnavailable.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "thin/block_set.h"
#include "thin/block_source.h"
#include "thin/metadata_reader.h"
#include "thin/pool_reader_api.h"

namespace quarry::thin {

// The bytes of the data device that belong to the doomed devices alone, in order. What the caller must
// guarantee until they are erased, and what the set lacks: exclusive.h. Memory: that of a BlockSet.
class ExclusiveRanges {
 public:
  // As FindExclusive(). kPrecondition: no metadata snapshot is reserved.
  static Result<ExclusiveRanges> Find(const std::string& path, std::span<const DeviceId> doomed,
                                      const Call& call);
  static Result<ExclusiveRanges> Find(std::shared_ptr<BlockSource> metadata, std::span<const DeviceId> doomed,
                                      const Call& call);

  Bytes total() const { return {blocks_.size() * block_size_.value}; }

  // The first range at or after `from`, begun at `from` if that is within it, and of at most `largest` bytes
  // (not 0); nullopt if there is none. To go through all: the end of one range is the `from` of the next. An
  // erasure that was interrupted goes on from where it ended. Ranges are as long as they can be.
  std::optional<ByteRange> Next(Bytes from, Bytes largest) const;

 private:
  ExclusiveRanges(BlockSet blocks, Bytes block_size) : blocks_(std::move(blocks)), block_size_(block_size) {}

  BlockSet blocks_;
  Bytes block_size_;
};

// The bytes that the thin device maps. nullopt: the pool has no device with this id. kPrecondition: no
// metadata snapshot is reserved. kCorrupt also if only one of the two trees of devices has it.
Result<std::optional<Bytes>> BytesOfDevice(const std::string& path, DeviceId id, const Call& call);
Result<std::optional<Bytes>> BytesOfDevice(std::shared_ptr<BlockSource> metadata, DeviceId id,
                                           const Call& call);

// The ranges at or behind `from` where the device has data. kNotFound: no such device.
Result<MappedRanges> FindMapped(const std::string& path, DeviceId id, Bytes from, const WalkLimit& limit,
                                const Call& call);
Result<MappedRanges> FindMapped(std::shared_ptr<BlockSource> metadata, DeviceId id, Bytes from,
                                const WalkLimit& limit, const Call& call);

}  // namespace quarry::thin
