// Disks as sysfs(5) and the links of /dev/disk describe them. Complete without udevd, but for the links.
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

// As UdevApi::Inventory. A disk that goes while it is read is left out.
Result<std::vector<Disk>> ReadDisks(const SysfsPlaces& places);

// Transport of the device with this name and this directory below /sys/devices. Pure.
std::string TransportOf(const std::string& name, const std::string& device_path);

// Whether a whole disk of this kernel name is one that comes and goes by being plugged: events of others are
// no news. Pure.
bool IsPluggable(std::string_view name);

}  // namespace quarry::udev
