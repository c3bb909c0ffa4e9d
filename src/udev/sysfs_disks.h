// Disks, read from sysfs(5) and the links of /dev/disk. Complete without udevd, except for the links.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "udev/udev_api.h"

namespace quarry::udev {

struct SysfsPlaces {
  std::string sysfs = "/sys/class/block";
  std::string dev = "/dev";
};

// As UdevApi::Inventory. A disk that is removed during the read is left out, or lacks the values that could
// no longer be read.
Result<std::vector<Disk>> ReadDisks(const SysfsPlaces& places);

// Transport of a device by its name and its directory below /sys/devices. Pure.
std::string TransportOf(const std::string& name, const std::string& device_path);

// Whether a whole disk with this kernel name can be plugged in and out. A Monitor ignores the events of other
// devices. Pure.
bool IsPluggable(std::string_view name);

}  // namespace quarry::udev
