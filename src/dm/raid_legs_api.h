// The seam to the superblocks of raid legs, below LVM and device-mapper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// The kernel reserves this size for the superblock. Its bitmap of regions follows.
inline constexpr size_t kRaidSuperblock = 4096;

// The block that dm-raid writes at the start of each leg's metadata sub-volume.
struct RaidSuperblock {
  uint32_t legs = 0;
  uint32_t role = 0;  // this leg's index
  uint64_t events =
      0;  // increases with every change of this block; legs with the same count were current together
  std::vector<bool> failed;  // per leg: failed, according to this leg
  bool filled = true;        // false: the leg was still being rebuilt
  // How far the array was synced, in sectors of the range that the bitmap covers; UINT64_MAX: to the end.
  uint64_t synced = UINT64_MAX;
  // False: a sync was in progress, the first one or one after a crash.
  bool in_sync() const { return synced == UINT64_MAX; }
  bool operator==(const RaidSuperblock&) const = default;
};

// The bitmap that dm-raid keeps behind the superblock: the regions that were written to and may differ
// between legs.
struct RaidBitmap {
  uint64_t events = 0;       // of the array when the bitmap was written
  uint64_t region_size = 0;  // sectors
  std::vector<bool> marked;  // by region
  bool operator==(const RaidBitmap&) const = default;
};

// How an array is to start, for cases that the kernel would not handle correctly by itself.
struct RaidStart {
  std::vector<bool> left_out;  // per leg: counts as failed, and is rebuilt from the others
  // Compares the marked regions, and rebuilds their parity or copies from the data.
  bool resync = false;
  // The regions to mark on every leg that is used, in place of each leg's own marks. Empty: no change.
  std::vector<bool> marked;
  // Marks all regions. The value is the bitmap's new event count: the highest of all legs.
  std::optional<uint64_t> mark_all;
  // The new event count of the legs that are used. It is higher than that of any other leg, so that a
  // returning leg is not taken for the most current.
  std::optional<uint64_t> events = {};
  bool operator==(const RaidStart&) const = default;
};

// Safe from any thread. `place` is a leg's metadata sub-volume, on a PV whose label is checked as for
// erasing.
class RaidLegsApi {
 public:
  virtual ~RaidLegsApi() = default;

  // kNotFound: only zeroes, so the leg was never part of a started array. kCorrupt: other content, or the
  // device is not that PV. kTimeout: the device does not answer. Other errors: it cannot be read.
  virtual Result<RaidSuperblock> Read(const EraseRange& place) = 0;

  // For a place whose superblock can be read. Errors as above.
  virtual Result<RaidBitmap> ReadBitmap(const EraseRange& place) = 0;

  // Writes the start instructions to one leg that is used, first to its bitmap, then to its superblock, and
  // flushes the disk. Only while the volume is inactive: the kernel of an active one may overwrite both with
  // its own copy. kPrecondition: the superblock is no longer `was`; nothing was written. kCorrupt: there is
  // no bitmap; nothing was written.
  virtual Status Write(const EraseRange& place, const RaidSuperblock& was, const RaidStart& start) = 0;
};

}  // namespace quarry::dm
