#pragma once

#include <cstddef>
#include <optional>

#include "base/call.h"

namespace quarry::daemon {

// When to look after a disk has arrived or left: at once, and a few times more. udevd makes the links of a
// new disk only after the disk has arrived, and other processes may hold the disk for a moment. Pure.
class LookSchedule {
 public:
  // A disk arrived. A watcher that watches for disks that leave also calls it for those.
  void DiskCame(SteadyTime now);
  // Call it after each look that was due. A failed look is repeated until one succeeds.
  void Looked(SteadyTime now, bool failed);
  std::optional<SteadyTime> due() const { return due_; }  // nullopt: no look is due

 private:
  std::optional<SteadyTime> due_;
  size_t looks_ = 0;  // since the last DiskCame
};

}  // namespace quarry::daemon
