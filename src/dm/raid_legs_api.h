// The seam to the superblocks of raid legs, below LVM and device-mapper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// What has to be read and written: the kernel keeps these for the superblock, and its bitmap behind them.
inline constexpr size_t kRaidSuperblock = 4096;

// What dm-raid writes at the beginning of each leg's metadata sub-volume.
struct RaidSuperblock {
  uint32_t legs = 0;
  uint32_t role = 0;         // which of them this is
  uint64_t events = 0;       // rises with every change of this block: legs that agree were current together
  std::vector<bool> failed;  // per leg: given up, as this leg last heard
  bool filled = true;        // false: this leg was still being filled
  bool in_sync = true;       // false: the array was still being synced for the first time, or after a crash
  bool operator==(const RaidSuperblock&) const = default;
};

// Any thread. `place` is the first extent of a leg's metadata sub-volume, on a PV whose label is checked as
// for erasing.
class RaidLegsApi {
 public:
  virtual ~RaidLegsApi() = default;

  // kCorrupt: none is there, or the device is not that PV.
  virtual Result<RaidSuperblock> Read(const EraseRange& place) = 0;

  // Changes which legs count as failed; `resync`: and that all legs are to be compared, and the parity or
  // copies made anew from the data, when the array starts. Flushed to the disk. Only while the volume is not
  // active: the kernel has its own copy. kPrecondition: the superblock is not `was` any more; nothing was
  // written.
  virtual Status Write(const EraseRange& place, const RaidSuperblock& was, const std::vector<bool>& failed,
                       bool resync) = 0;
};

}  // namespace quarry::dm
