// Which disk is evacuated, and what that means for its pool.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace quarry::engine {

// The evacuation of a disk.
struct EvacuateRequest {
  std::string disk;      // UUID of its physical volume, or any path of it
  bool rebuild = false;  // RAID legs are rebuilt from the other legs and not read from this disk
  bool cancel = false;   // the disk stays; extents that have already moved do not return
  bool dry_run = false;  // only checks whether it is possible
};
struct EvacuateResult {
  std::string pool, group, pv_uuid, device;
  Bytes to_move;                     // on the disk now
  std::vector<std::string> volumes;  // ids of the volumes on the disk
  bool changed = false;              // false: nothing to change, or dry_run
};

}  // namespace quarry::engine
