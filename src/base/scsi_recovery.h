// Whether opening a SCSI device would wait for the kernel's error handling. That may take minutes and cannot
// be interrupted, so whoever opens disks asks first. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace quarry {

// True if `device` (st_rdev of a block device) is a SCSI device, or a partition of one, whose host adapter is
// recovering from errors now (scsi_host_in_recovery() of the kernel). False if that cannot be told. A reset
// by ioctl(SG_SCSI_RESET), which sysfs does not show, is not seen.
bool IsInScsiRecovery(dev_t device, const std::string& sysfs = "/sys");

// The same of a device node, before it is opened: kTimeout if opening it would wait. OK for whatever is no
// block device, or is not there: opening it says so.
Status CheckNotInScsiRecovery(const std::string& node);

}  // namespace quarry
