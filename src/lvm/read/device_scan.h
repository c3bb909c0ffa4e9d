// Whether LVM could have seen every disk.
//
// LVM passes over a device that it cannot read, or that is suspended, without a word, and then says that a
// group on it is "not found". So "not found" is believed only if every device that LVM would have read can be
// read.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

// Reads the first block of each block device of the host, but of LVs (LVM does not look for PVs in them) and
// devices without a medium. kUnavailable naming the first that cannot be read. A device that was removed
// while we looked is no failure. One that has not answered within a second does not answer: it is not waited
// for, and not asked again before it has. Nor is one whose SCSI host is recovering from errors.
Status EveryDeviceAnswers(const Call& call, const std::string& sysfs = "/sys/class/block",
                          const std::string& dev = "/dev");

}  // namespace quarry::lvm
