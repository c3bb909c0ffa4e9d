// The seam to the kernel's block devices: which disks there are, what tells one from another, and when they
// come and go. What is on a disk is not this room's business: libblkid is behind MountApi, labels of physical
// volumes are behind PvReader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::udev {

struct DeviceNumber {
  uint32_t major = 0;
  uint32_t minor = 0;
  auto operator<=>(const DeviceNumber&) const = default;
};

// A whole block device, as sysfs has it. The kernel's name is a name for now only: it goes to another disk at
// the next boot. `identity` is what stays.
struct Disk {
  std::string name;  // of the kernel: "nvme0n1"
  std::string node;  // "/dev/nvme0n1"
  DeviceNumber number;
  // The best name that the disk gives itself: NVMe's EUI-64, NGUID or UUID ("eui.…", "uuid.…", "nvme.…" of
  // vendor, serial and model), SCSI's WWN ("naa.…", "t10.…"), else "serial:<model>_<serial>". Empty: it has
  // none.
  std::string identity;
  std::string model, serial;  // without blanks around; empty: the disk does not say
  std::string transport;      // one of Transports()
  Bytes size;
  Bytes logical_block, physical_block;
  bool rotational = false;
  bool removable = false;
  bool read_only = false;
  // Commands to it that failed since it was found, as the kernel counts them: of SCSI and SATA disks, and
  // with those that it only did not know. nullopt: the kernel does not count.
  std::optional<uint64_t> failed_commands = {};
  // Made of other devices, of files, of memory or of a network connection (dm, md, loop, zram, nbd): taken
  // for a disk only where somebody says so by name.
  bool made_up = false;
  std::vector<std::string> holders;     // kernel names of what lies on it: dm, md, bcache
  std::vector<std::string> partitions;  // kernel names
  std::vector<std::string> links;       // "/dev/disk/by-id/…" and the like that point at it; needs udevd
};

// "nvme", "sata", "scsi", "usb", "virtio", "mmc", then those of made-up devices, then "other".
const std::vector<std::string_view>& Transports();

// What has happened to whole disks since somebody last asked. Logical volumes and the like do not count.
struct News {
  bool came = false;  // also if the kernel had too much to tell and left some out
  bool went = false;
  bool changed = false;  // size, medium, or somebody wrote to it and closed it
};

// For one thread at a time.
class Monitor {
 public:
  virtual ~Monitor() = default;
  // Readable while there is news; for poll(2) only.
  virtual int fd() const = 0;
  // Takes all news, without waiting.
  virtual News Drain() = 0;
};

// Thread-safe.
class UdevApi {
 public:
  virtual ~UdevApi() = default;
  // Every whole block device with a size, but for logical volumes of LVM and the hidden paths of multipath
  // NVMe. By kernel name. Reads no disk, and waits for none. kUnavailable: sysfs could not be listed.
  virtual Result<std::vector<Disk>> Inventory() = 0;
  // Tells from now on; what happened before is found by Inventory(). kUnavailable, kIo: no events can be had.
  virtual Result<std::unique_ptr<Monitor>> Watch() = 0;
  // The block device that stands at a path, links followed; nullopt if there is none.
  virtual Result<std::optional<DeviceNumber>> NumberOf(const std::string& path) = 0;
};

}  // namespace quarry::udev
