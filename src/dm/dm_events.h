// That something happened to a device-mapper device, told by the kernel: one was made, removed or resumed, a
// raid leg failed, a sync began or ended. Not what, and not to which.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::dm {

// One thread.
class DmEvents {
 public:
  // kUnavailable: no device-mapper in this kernel, or one older than 4.13 (DM_DEV_ARM_POLL, ioctl 4.37).
  static Result<DmEvents> Open();

  // To poll for POLLIN: readable once something happened since Arm().
  int fd() const { return control_.get(); }
  // From now on. To be called before one looks, so that nothing is missed in between. DM_DEV_ARM_POLL.
  Status Arm();

 private:
  explicit DmEvents(UniqueFd control) : control_(std::move(control)) {}
  UniqueFd control_;
};

}  // namespace quarry::dm
