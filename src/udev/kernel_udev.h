// UdevApi on the kernel that we run on: sysfs for what there is, libudev's monitor of the kernel's own events
// for what happens. No udevd is needed; where one runs, /dev/disk has its links.
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
  // The netlink group "kernel" of libudev (udev_monitor_new_from_netlink(3)): it is told in every network
  // namespace that the initial user namespace owns, so in a container too. That of udevd is not.
  Result<std::unique_ptr<Monitor>> Watch() override;
  Result<std::optional<DeviceNumber>> NumberOf(const std::string& path) override;

 private:
  const SysfsPlaces places_;
};

}  // namespace quarry::udev
