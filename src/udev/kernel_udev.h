// UdevApi on the running kernel: sysfs for the inventory, and libudev's monitor of the kernel's own events.
// udevd is not needed; if it runs, /dev/disk has its links.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "udev/sysfs_disks.h"
#include "udev/udev_api.h"

namespace quarry::udev {

// No state but its configuration: thread-safe.
class KernelUdev final : public UdevApi {
 public:
  explicit KernelUdev(SysfsPlaces places = {}) : places_(std::move(places)) {}

  Result<std::vector<Disk>> Inventory() override { return ReadDisks(places_); }
  // Uses libudev's netlink group "kernel" (udev_monitor_new_from_netlink(3)). The kernel sends its events to
  // every network namespace that the initial user namespace owns, so containers get them too. Containers do
  // not get udevd's events.
  Result<std::unique_ptr<Monitor>> Watch() override;
  Result<std::optional<DeviceNumber>> NumberOf(const std::string& path) override;

 private:
  const SysfsPlaces places_;
};

}  // namespace quarry::udev
