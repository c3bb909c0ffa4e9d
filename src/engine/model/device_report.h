// A disk and its place on the node, as callers see it. disks/inventory.h makes it.
#pragma once

#include <optional>
#include <string>

#include "udev/disk_health.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// A disk of the node, and its relation to the pools.
struct DeviceReport {
  udev::Disk disk;
  std::string pv_uuid;  // empty: no physical volume
  std::string holds;    // "ext4", "LVM physical volume of vg1", "nothing"; empty: unknown, the disk is in use
  std::string pool;     // the pool that has the disk or whose rule it meets; empty: none
  std::string rule;     // the rule that it meets; empty: none
  bool member = false;  // the disk is in the pool
  bool wanted = false;  // the disk is blank and free, and will join
  std::string words;    // the reason for the above
  std::optional<udev::DiskHealth> health = {};  // of a pool's disk, as in DiskStatus
};

}  // namespace quarry::engine
