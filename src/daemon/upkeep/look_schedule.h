#pragma once

#include <cstddef>
#include <optional>

#include "base/call.h"

namespace quarry::daemon {

// When to look at disks after one arrived or left: at once, and a few times more. udevd makes the links of a
// new disk only after it has arrived, and other processes may hold the disk for a moment. Pure.
class LookSchedule {
 public:
  // Call it when a disk has arrived. Watcher also calls it when a disk has left.
  void DiskCame(SteadyTime now);
  // Call it after each look that was due. A failed look is repeated until one succeeds.
  void Looked(SteadyTime now, bool failed);
  std::optional<SteadyTime> due() const { return due_; }  // nullopt: no look is due

 private:
  std::optional<SteadyTime> due_;
  size_t looks_ = 0;  // since the last DiskCame
};

}  // namespace quarry::daemon
