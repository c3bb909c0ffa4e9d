#pragma once

#include <cstddef>
#include <optional>

#include "base/call.h"

namespace quarry::daemon {

// When to look after a disk has come: at once, and a few times more, because udevd makes its links only then
// and others may hold the disk for a moment. Pure.
class LookSchedule {
 public:
  void DiskCame(SteadyTime now);
  // After a look that was due. One that failed is repeated until one does not.
  void Looked(SteadyTime now, bool failed);
  std::optional<SteadyTime> due() const { return due_; }  // nullopt: nothing to look for

 private:
  std::optional<SteadyTime> due_;
  size_t looks_ = 0;  // since the last disk came
};

}  // namespace quarry::daemon
