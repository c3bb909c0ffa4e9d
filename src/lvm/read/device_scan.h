// Whether LVM could read every disk.
//
// LVM silently skips a device that it cannot read, or that is suspended, and then reports a group on it as
// "not found". So "not found" is believed only if every device that LVM would read can be read.
#pragma once

#include <filesystem>
#include <string>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

// Reads the first block of each block device of the host, except LVs (LVM does not look for PVs in them) and
// devices without a medium. kUnavailable names the first device that cannot be read. A device removed during
// the scan is no failure. A device that gives no answer within one second, or whose SCSI host is recovering
// from errors, counts as unreadable. It is not waited for; a read that is in flight is not repeated.
Status EveryDeviceAnswers(const Call& call, const std::string& sysfs = "/sys/class/block",
                          const std::string& dev = "/dev");

// `device`: the folder of a block device in sysfs.

// First line of an attribute; empty if the attribute is absent.
std::string Attribute(const std::filesystem::path& device, const char* name);
// Whether LVM would look for a PV on the device. Excludes LVs and devices without content. Checks for LVs
// first: there may be thousands.
bool MayHoldPv(const std::filesystem::path& device);
// The device's node below `dev`.
std::string NodeOf(const std::filesystem::path& device, const std::string& dev);

}  // namespace quarry::lvm
