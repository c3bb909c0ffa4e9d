// The seam to the kernel's block devices: which disks exist, how to tell them apart, and when they come and
// go. The content of disks does not belong here: libblkid is behind MountApi, PV labels are behind PvReader.
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

// A whole block device, as in sysfs. The kernel's name is temporary: at the next boot it may belong to
// another disk. `identity` is permanent.
struct Disk {
  std::string name;  // the kernel's name: "nvme0n1"
  std::string node;  // "/dev/nvme0n1"
  DeviceNumber number;
  // NVMe: the kernel's wwid: "uuid.…", "eui.…" (NGUID or EUI-64) or "nvme.…" (vendor, serial number, model).
  // SCSI and SATA: its wwid too, mostly "naa.…" or "t10.…". device-mapper: its UUID. Otherwise
  // "serial:<model>_<serial>", or "serial:<serial>" without a model. Empty: none of these.
  std::string identity;
  std::string model, serial;  // trimmed; empty: the disk does not say
  std::string transport;      // one of Transports()
  Bytes size;
  Bytes logical_block, physical_block;
  bool rotational = false;
  bool read_only = false;
  // Failed commands since the disk was found, as the kernel counts them for SCSI and SATA disks. Includes
  // commands that the disk did not know. nullopt: the kernel does not count.
  std::optional<uint64_t> failed_commands = {};
  // Made of other devices, files, memory or a network connection (dm, md, loop, zram, ram, nbd). Counts as a
  // disk only if a setting names it.
  bool made_up = false;
  std::vector<std::string> holders;     // kernel names of devices on top of it: dm, md, bcache
  std::vector<std::string> partitions;  // kernel names
  std::vector<std::string> links;       // below /dev/disk ("/dev/disk/by-id/…"), to this disk; needs udevd
};

// "nvme", "sata", "scsi", "usb", "virtio", "mmc", then the kinds of made_up ("dm", …), then "other".
const std::vector<std::string_view>& Transports();

// Events of whole disks since the last Drain(). Events of made_up devices do not count.
struct News {
  // Both are also true if the kernel dropped events or an event was invalid.
  bool came = false, went = false;
  // The size or medium changed. If udevd runs: also when a process closed the disk after opening it for
  // writing.
  bool changed = false;
};

// For one thread at a time.
class Monitor {
 public:
  virtual ~Monitor() = default;
  // Readable while there is news. For poll(2) only.
  virtual int fd() const = 0;
  // Returns all news, without waiting.
  virtual News Drain() = 0;
};

// Thread-safe.
class UdevApi {
 public:
  virtual ~UdevApi() = default;
  // Every whole block device with a size, sorted by kernel name, without LVM's logical volumes and the hidden
  // paths of multipath NVMe. Reads no disk, and waits for none. kUnavailable: sysfs could not be listed.
  virtual Result<std::vector<Disk>> Inventory() = 0;
  // Reports events from now on. Inventory() shows what happened before. kUnavailable: no events available.
  virtual Result<std::unique_ptr<Monitor>> Watch() = 0;
  // The block device at a path, links followed; nullopt if there is none.
  virtual Result<std::optional<DeviceNumber>> NumberOf(const std::string& path) = 0;
};

}  // namespace quarry::udev
