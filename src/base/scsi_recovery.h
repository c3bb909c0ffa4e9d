// Whether opening a SCSI device would wait for the kernel's error handling. That wait may take minutes and
// cannot be interrupted, so check before opening a disk. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace quarry {

// True if `device` (st_rdev of a block device) is a SCSI device, or a partition of one, whose host adapter is
// recovering from errors (scsi_host_in_recovery() of the kernel). False if this cannot be determined. A reset
// by ioctl(SG_SCSI_RESET) is not detected, because sysfs does not show it.
bool IsInScsiRecovery(dev_t device, const std::string& sysfs = "/sys");

// The same for a device node, before it is opened. kTimeout: the open would wait. OK if the node is not a
// block device or does not exist: opening it reports that.
Status CheckNotInScsiRecovery(const std::string& node);

}  // namespace quarry
