// Kernel events of device-mapper: a device was created, removed or resumed, a raid leg failed, a sync began
// or ended. The event says neither what happened nor to which device.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::dm {

// For one thread.
class DmEvents {
 public:
  // kUnavailable: no device-mapper in this kernel, or a kernel older than 4.13 (DM_DEV_ARM_POLL, ioctl 4.37).
  static Result<DmEvents> Open();

  // For poll(2) with POLLIN: readable once something happened after Arm().
  int fd() const { return control_.get(); }
  // Watches from now on. Call it before inspecting devices, so that no event in between is missed.
  // DM_DEV_ARM_POLL.
  Status Arm();

 private:
  explicit DmEvents(UniqueFd control) : control_(std::move(control)) {}
  UniqueFd control_;
};

}  // namespace quarry::dm
