#pragma once

#include <cstddef>
#include <optional>

#include "base/call.h"

namespace quarry::daemon {

// When to look after a disk has arrived: at once, and a few times more. udevd makes the disk's links only
// after it arrives, and other processes may hold the disk for a moment. Pure.
class LookSchedule {
 public:
  void DiskCame(SteadyTime now);
  // Call it after each look that was due. A failed look is repeated until one succeeds.
  void Looked(SteadyTime now, bool failed);
  std::optional<SteadyTime> due() const { return due_; }  // nullopt: no look is due

 private:
  std::optional<SteadyTime> due_;
  size_t looks_ = 0;  // since the last disk arrived
};

}  // namespace quarry::daemon
