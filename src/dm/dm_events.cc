#include "dm/dm_events.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>

namespace quarry::dm {

Result<DmEvents> DmEvents::Open() {
  UniqueFd control(open("/dev/mapper/control", O_RDWR | O_CLOEXEC));
  if (!control.valid()) {
    return ErrnoError("opening /dev/mapper/control").As(Code::kUnavailable);
  }
  DmEvents events(std::move(control));
  QUARRY_TRY(events.Arm());
  return events;
}

Status DmEvents::Arm() {
  dm_ioctl request{};
  // The interface version that introduced this request. The kernel accepts every older version of its major
  // number.
  request.version[0] = 4;
  request.version[1] = 37;
  request.data_size = sizeof(request);
  if (ioctl(control_.get(), DM_DEV_ARM_POLL, &request) != 0) {
    return ErrnoError("asking device-mapper for events").As(Code::kUnavailable);
  }
  return Ok();
}

}  // namespace quarry::dm
