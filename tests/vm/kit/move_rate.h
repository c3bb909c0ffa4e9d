// How fast pvmoves copy, in the guest's kernel.
#pragma once

#include <fstream>

namespace quarry::vm {

// Lets dm-mirror copy for this many percent of the time. False: the kernel has not loaded it. The first
// pvmove does that.
inline bool LimitMoves(int percent) {
  std::ofstream throttle("/sys/module/dm_mirror/parameters/raid1_resync_throttle");
  return static_cast<bool>(throttle << percent << std::flush);
}

}  // namespace quarry::vm
