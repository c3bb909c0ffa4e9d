// The seam to the superblocks of raid legs, below LVM and device-mapper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// The kernel keeps these for the superblock, and its bitmap of regions behind them.
inline constexpr size_t kRaidSuperblock = 4096;

// What dm-raid writes at the beginning of each leg's metadata sub-volume.
struct RaidSuperblock {
  uint32_t legs = 0;
  uint32_t role = 0;         // which of them this is
  uint64_t events = 0;       // rises with every change of this block: legs that agree were current together
  std::vector<bool> failed;  // per leg: given up, as this leg last heard
  bool filled = true;        // false: this leg was still being filled
  // How far the array was synced, in sectors of what the bitmap covers; UINT64_MAX: to its end.
  uint64_t synced = UINT64_MAX;
  // False: it was still being synced, for the first time or after a crash.
  bool in_sync() const { return synced == UINT64_MAX; }
  bool operator==(const RaidSuperblock&) const = default;
};

// What dm-raid keeps behind it: the regions that were written to and may not be the same on all legs.
struct RaidBitmap {
  uint64_t events = 0;       // of the array when it was written
  uint64_t region_size = 0;  // sectors
  std::vector<bool> marked;  // by region
  bool operator==(const RaidBitmap&) const = default;
};

// What an array is to start from, where the kernel would not do right by itself.
struct RaidStart {
  std::vector<bool> left_out;  // per leg: counts as failed, and is filled from the others
  // The regions that are marked are compared, and their parity or copies made anew from the data.
  bool resync = false;
  // By region, what is to be marked on all legs that are taken, in place of what each has. Empty: nothing.
  std::vector<bool> marked;
  // All regions are to be, as of this count of events, the highest of all legs.
  std::optional<uint64_t> mark_all;
  // The count of events that the legs that are taken get: more than any other leg has, so that none that
  // comes back is taken for the freshest.
  std::optional<uint64_t> events = {};
  bool operator==(const RaidStart&) const = default;
};

// Any thread. `place` is a leg's metadata sub-volume, on a PV whose label is checked as for erasing.
class RaidLegsApi {
 public:
  virtual ~RaidLegsApi() = default;

  // kNotFound: zeroes are there, the leg was never part of an array that was started. kCorrupt: something
  // else is there, or the device is not that PV. kTimeout: the device does not answer. Other errors: it
  // cannot be read.
  virtual Result<RaidSuperblock> Read(const EraseRange& place) = 0;

  // Of a place of which the superblock can be read. Errors as above.
  virtual Result<RaidBitmap> ReadBitmap(const EraseRange& place) = 0;

  // Notes for the start, on one leg that is taken: first in its bitmap, then in its superblock. Flushed to
  // the disk. Only while the volume is not active: the kernel has its own copy. kPrecondition: the superblock
  // is not `was` any more; nothing was written. kCorrupt: there is no bitmap; nothing was written.
  virtual Status Write(const EraseRange& place, const RaidSuperblock& was, const RaidStart& start) = 0;
};

}  // namespace quarry::dm
