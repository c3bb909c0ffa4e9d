// The seam to the metadata of thin pools: what the engine asks of a pool that is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::thin {

// A range of a thin device, or of a pool's data device.
struct ByteRange {
  Bytes offset;
  Bytes length;
  auto operator<=>(const ByteRange&) const = default;
  Bytes end() const { return offset + length; }
};

// Where a thin device has bytes of its own.
struct MappedRanges {
  std::vector<ByteRange> ranges;  // of the thin device: ascending, whole chunks, never adjacent
  Bytes end;                      // all before this is in `ranges`. The next call goes on from here.
  bool whole = false;             // nothing is mapped behind `end`
  // A snapshot was made of the device since it was made, or the kernel would copy one of these ranges at a
  // write. A write to such a device may go to a new chunk, and leave the old one as it was. The same holds
  // for a snapshot itself, which metadata do not show.
  bool was_shared = false;
};

// Where the data device has bytes that one thin device maps, and no other device of the pool.
struct OwnRanges {
  std::vector<ByteRange> ranges;  // of the data device: ascending, never adjacent
  bool whole = false;             // there are none behind the last range
};

// How much one call may do, both at least 1. A call reads some blocks more than `reads` if it would get
// nowhere otherwise.
struct WalkLimit {
  size_t ranges = 0;   // in the answer
  uint64_t reads = 0;  // blocks of metadata, of 4 KiB
};

// What a bounded walk through the mappings of a thin device has found.
struct WalkedRanges {
  std::vector<ByteRange> ranges;  // of the thin device: ascending, whole chunks, never adjacent
  Bytes end;                      // all before this is in `ranges`. The next call goes on from here.
  bool whole = false;             // there is nothing behind `end`
};

// `metadata` is the path of the pool's metadata device. The caller has reserved the metadata snapshot; the
// answers are those of that moment. kNotFound: the pool has no device of this id. kPrecondition: no metadata
// snapshot is reserved. kCorrupt: the metadata are damaged. kUnavailable: the metadata device is not there.
// Calls may come from any thread.
class PoolReaderApi {
 public:
  virtual ~PoolReaderApi() = default;

  // The bytes that the device maps, in whole chunks, shared ones too. nullopt: the pool has no such device.
  virtual Result<std::optional<Bytes>> Device(const std::string& metadata, uint32_t id, const Call& call) = 0;
  // For each of these devices, by id, its mapped bytes in whole chunks, shared ones included. Devices that
  // the pool does not have are left out. Takes one look at each device, and at no mapping.
  virtual Result<std::map<uint32_t, Bytes>> MappedBytes(const std::string& metadata,
                                                        std::span<const uint32_t> ids, const Call& call) = 0;

  // The same for bytes in chunks that no other device of the pool has: what the pool gets back if the device
  // is deleted. Reads all mappings of the pool, until `call` ends (kTimeout, kCancelled).
  virtual Result<std::map<uint32_t, Bytes>> ExclusiveBytes(const std::string& metadata,
                                                           std::span<const uint32_t> ids,
                                                           const Call& call) = 0;

  // The pool's time when the device was made, which each snapshot in the pool advances. So a snapshot is
  // newer than another one if it has the greater time.
  virtual Result<uint64_t> CreationTime(const std::string& metadata, uint32_t id, const Call& call) = 0;

  // The ranges at or behind `from`. If `call` ends in time (kTimeout) when there are some, those.
  virtual Result<MappedRanges> Mapped(const std::string& metadata, uint32_t id, Bytes from,
                                      const WalkLimit& limit, const Call& call) = 0;

  // At most `most` ranges at or behind `from`. Takes as long as reading the mappings of all devices
  // (exclusive.h). What is exclusive stays so while the device exists, is not written to, and no snapshot is
  // made of it.
  virtual Result<OwnRanges> Exclusive(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                                      const Call& call) = 0;

  // The bytes that the device maps, shared or not, from the chunk on that has `from`. If `call` ends in time
  // once there was some progress, what was read so far; Different likewise.
  virtual Result<WalkedRanges> Allocated(const std::string& metadata, uint32_t id, Bytes from,
                                         const WalkLimit& limit, const Call& call) = 0;

  // The chunks that two devices have in different places, or only one of them has, from the chunk on that has
  // `from`. If neither device is ever written to, all others have equal bytes in both. Takes as long as
  // reading what the devices do not share (difference.h).
  virtual Result<WalkedRanges> Different(const std::string& metadata, uint32_t base, uint32_t target,
                                         Bytes from, const WalkLimit& limit, const Call& call) = 0;
};

}  // namespace quarry::thin
