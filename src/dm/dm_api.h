// The seam to device-mapper: what the kernel has active, by UUID. LVM makes and removes the devices; here
// they are only looked at, but for those that LVM has lost track of, and raid devices that are told to
// compare their legs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace quarry::dm {

struct Device {
  std::string name;  // device-mapper's name, as in /dev/mapper
  std::string uuid;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t open_count = 0;
  bool suspended = false;
  bool read_only = false;  // as BLKROGET says
  // Always there in devtmpfs, whatever udev does.
  std::string Node() const { return "/dev/dm-" + std::to_string(minor); }
};

// What the kernel says of a raid device, leg by leg (kernel:
// Documentation/admin-guide/device-mapper/dm-raid).
struct RaidStatus {
  std::string type;  // as the table has it: "raid1", "raid5_ls", …
  std::string legs;  // a letter per leg, in their order: 'A' in sync, 'a' not yet, 'D' failed, '-' not there
  uint64_t in_sync = 0;     // of `total`, in sectors; never more
  uint64_t total = 0;       // never 0
  std::string action;       // idle, resync, recover, check, repair, frozen, …; empty from an old kernel
  uint64_t mismatches = 0;  // sectors, found by a check; 0 once anything else was done after it
};

// A stretch of a block device that a device-mapper device maps, by the table that it has or by one that was
// loaded and waits to take its place.
struct Mapping {
  std::string uuid;  // of the device that maps; may be empty where it is not LVM's
  std::string name;
  Bytes offset;  // on the block device
  // UINT64_MAX from `offset` on: to its end, or the table does not say.
  Bytes length;
  bool Overlaps(Bytes from, Bytes size) const {
    return offset < from + size && (from < offset || from - offset < length);
  }
};

// Any thread. Nothing here starts a process.
class DmApi {
 public:
  virtual ~DmApi() = default;

  // nullopt: the kernel has no such device (the LV is not active). DM_DEVICE_INFO by UUID.
  virtual Result<std::optional<Device>> Find(const std::string& uuid) = 0;

  // Every device whose UUID begins with `prefix`, which is not empty, in no particular order.
  // DM_LIST_DEVICES.
  virtual Result<std::vector<Device>> List(const std::string& prefix) = 0;

  // How a raid device is. nullopt: there is no such device, or it is no raid one, or it has no table yet. The
  // kernel is asked without flushing: it does not wait for a disk. DM_TABLE_STATUS.
  virtual Result<std::optional<RaidStatus>> Raid(const std::string& uuid) = 0;

  // Has a raid device read all of its legs and count where they differ (RaidStatus::mismatches); `repair`:
  // and write anew what differs, copies from the first of them, parity from the data. Returns once that has
  // begun: its action is "check" or "repair" until it ends, or is broken off. kNotFound: not active.
  // kPrecondition: it is at something else, or does not begin. kUnsupported: it has nothing to compare.
  // DM_TARGET_MSG.
  virtual Status Scrub(const std::string& uuid, bool repair) = 0;

  // A number that no other device has had since the boot, also none of the same UUID that was active before
  // (sysfs, diskseq). 0: the kernel, before 5.15, gives none. kNotFound: not active.
  virtual Result<uint64_t> Instance(const std::string& uuid) = 0;

  // Whether it lies, itself or by way of others below it, on a disk that the kernel no longer has: one that
  // was pulled, whether or not it is back under another name. It will not come back by itself. False: there
  // is no such device. DM_TABLE_DEPS, and /sys/dev/block.
  virtual Result<bool> LiesOnLostDisk(const std::string& uuid) = 0;

  // What device-mapper maps of the block device at this path, whoever made it; in no particular order.
  // kNotFound: no such device. DM_TABLE_DEPS and DM_TABLE_STATUS of every device.
  virtual Result<std::vector<Mapping>> MappingsOf(const std::string& path) = 0;

  // Takes a device away that no logical volume stands behind any more. Gone already is OK. kPrecondition: it
  // is open, or another device lies on it. DM_DEV_REMOVE.
  virtual Status Remove(const std::string& uuid) = 0;

  // Opens the block device of `uuid` and proves that the descriptor is that device (st_rdev against
  // device-mapper, after the open). O_CLOEXEC; `flags` are O_RDONLY or O_RDWR, O_EXCL allowed. kNotFound: not
  // active. kPrecondition: O_EXCL and somebody else has it so (errno EBUSY), or O_RDWR and it is read-only.
  virtual Result<UniqueFd> Open(const std::string& uuid, int flags) = 0;

  // Makes the whole device read-only or writable (BLKROSET). A read-only device refuses every write, whoever
  // opened it. kNotFound: not active.
  virtual Status SetReadOnly(const std::string& uuid, bool read_only) = 0;

  // Whether the running kernel has, or can load, this target ("raid", "striped", "linear"):
  // DM_GET_TARGET_VERSION.
  virtual Result<bool> HasTarget(const std::string& target) = 0;
};

}  // namespace quarry::dm
