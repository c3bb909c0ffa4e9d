// The seam to device-mapper: the kernel's active devices, by UUID. LVM creates and removes the devices. This
// seam only inspects them, with exceptions: it removes devices that LVM lost track of and drops tables that a
// killed LVM has loaded, starts scrubs of raid devices, sends messages to thin pools, and suspends and
// resumes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "dm/thin_api.h"

namespace quarry::dm {

struct Device {
  std::string name;  // device-mapper's name, as in /dev/mapper
  std::string uuid;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t open_count = 0;
  bool suspended = false;
  bool read_only = false;      // as BLKROGET reports
  bool waiting_table = false;  // a loaded table waits for a resume
  // False between the device's creation and its table: nothing can be read, and it may have no node yet.
  bool has_table = true;
  bool IsUsable() const { return has_table && !suspended; }
  // devtmpfs always has this node, whatever udev does.
  std::string Node() const { return "/dev/dm-" + std::to_string(minor); }
};

// The kernel's view of a raid device, leg by leg (kernel: Documentation/admin-guide/device-mapper/dm-raid).
struct RaidStatus {
  std::string type;  // as in the table: "raid1", "raid5_ls", …
  // One letter per leg, in leg order: 'A' in sync, 'a' not in sync yet, 'D' failed, '-' absent.
  std::string legs;
  uint64_t in_sync = 0;     // sectors of `total`; never more than `total`
  uint64_t total = 0;       // never 0
  std::string action;       // idle, resync, recover, check, repair, frozen, …; empty on an old kernel
  uint64_t mismatches = 0;  // sectors that a check found to differ; 0 after other actions
};

// A range of a block device that a device-mapper device maps, by its current table or by a loaded one that
// waits to replace it.
struct Mapping {
  std::string uuid;  // of the mapping device; may be empty if it is not LVM's
  std::string name;
  Bytes offset;  // on the block device
  // UINT64_MAX: from `offset` to the device's end, or the table does not say.
  Bytes length;
  bool Overlaps(Bytes from, Bytes size) const {
    return offset < from + size && (from < offset || from - offset < length);
  }
};

// Safe from any thread. No call starts a process.
class DmApi {
 public:
  virtual ~DmApi() = default;

  // nullopt: the kernel has no such device (the LV is not active). DM_DEVICE_INFO by UUID.
  virtual Result<std::optional<Device>> Find(const std::string& uuid) = 0;

  // Every device whose UUID begins with `prefix` (not empty), in no particular order. DM_LIST_DEVICES.
  virtual Result<std::vector<Device>> List(const std::string& prefix) = 0;

  // The status of a raid device. nullopt: no such device, or not a raid device, or it has no table yet. If a
  // snapshot of LVM's lies on the volume, `uuid` is a snapshot-origin, and this is the status of the device
  // below it (UUID with the suffix "-real"). The status is read without flushing, so the call does not wait
  // for a disk. DM_TABLE_STATUS.
  virtual Result<std::optional<RaidStatus>> Raid(const std::string& uuid) = 0;

  // Starts a scrub: the raid device reads all its legs and counts differences (RaidStatus::mismatches). With
  // `repair` it also rewrites what differs: copies from the first leg, parity from the data. Returns once the
  // scrub has begun. The action is then "check" or "repair" until the scrub ends or is aborted. kNotFound:
  // not active. kPrecondition: another action is running, or the scrub does not begin. kUnsupported: nothing
  // to compare. DM_TARGET_MSG.
  virtual Status Scrub(const std::string& uuid, bool repair) = 0;

  // A number that no other device has had since boot, not even an earlier device with the same UUID (sysfs,
  // diskseq). 0: kernels before 5.15 have no such number. kNotFound: not active.
  virtual Result<uint64_t> Instance(const std::string& uuid) = 0;

  // The size that the kernel gives the device, which is that of its table; 0: it has none yet. nullopt: not
  // active. Opens nothing. sysfs, size.
  virtual Result<std::optional<Bytes>> Size(const std::string& uuid) = 0;

  // Whether the device, directly or through devices below it, is on a disk that the kernel no longer has: a
  // disk that was pulled, even if it returned under another name. The device does not recover by itself.
  // False if there is no such device. DM_TABLE_DEPS, and /sys/dev/block.
  virtual Result<bool> LiesOnLostDisk(const std::string& uuid) = 0;

  // All ranges of the block device at this path that device-mapper maps, for any owner, in no particular
  // order. kNotFound: no such device. DM_TABLE_DEPS and DM_TABLE_STATUS of every device.
  virtual Result<std::vector<Mapping>> MappingsOf(const std::string& path) = 0;

  // Removes a device that has no logical volume any more. OK if already gone. kPrecondition: the device is
  // open, or another device is on top of it. DM_DEV_REMOVE.
  virtual Status Remove(const std::string& uuid) = 0;

  // Removes nodes and LVM's links of devices that do not exist, as a killed LVM leaves them: those in
  // /dev/mapper, and those in the folder of volume group `group`, if `ours` is true for the device's name.
  // Failures are ignored.
  virtual void RemoveStaleNodes(const std::string& group,
                                const std::function<bool(const std::string& name)>& ours) = 0;

  // Opens the block device of `uuid` and proves that the descriptor is that device (st_rdev against
  // device-mapper, after the open). O_CLOEXEC is added; `flags` are O_RDONLY or O_RDWR, O_EXCL allowed.
  // kNotFound: not active. kPrecondition: O_EXCL, and another process or device has it open exclusively
  // (errno EBUSY); or O_RDWR, and the device is read-only.
  virtual Result<UniqueFd> Open(const std::string& uuid, int flags) = 0;

  // Makes the whole device read-only or writable (BLKROSET). A read-only device refuses every write, from any
  // process. kNotFound: not active.
  virtual Status SetReadOnly(const std::string& uuid, bool read_only) = 0;

  // The status of a thin pool. `uuid` is that of LVM's pool, without the suffix "-tpool" that LVM gives the
  // device; with it is right, too. The answer has UUID and name of the device. Its name tells whether the
  // pool ever had a thin volume: "vg-pool-tpool", otherwise "vg-pool". nullopt: no such pool is active.
  // kCorrupt: a status line with unknown words. The status is read without a commit, so it may be a second
  // old; but it waits for a commit in progress, thus perhaps for a disk. DM_TABLE_STATUS.
  virtual Result<std::optional<ThinPoolStatus>> ThinPool(const std::string& uuid) = 0;

  // The status of a thin device. nullopt: no such device, or not a thin one, or it has no table yet. As
  // Raid() if a snapshot of type COW lies on it; otherwise as ThinPool().
  virtual Result<std::optional<ThinStatus>> Thin(const std::string& uuid) = 0;

  // Sends a message to a thin pool (`uuid` as for ThinPool) and returns once it is committed to the disk. No
  // message may be repeated blindly, so "already there" and "already gone" are errors:
  // kAlreadyExists: CreateThin, CreateSnap, and the pool has a device with that id, with whatever content.
  // kNotFound: DeleteThin, CreateSnap, and the pool has no such device or origin; ReleaseMetadataSnap, and
  // none is held. kPrecondition: the pool is not active, is read-only, has failed or needs a check;
  // DeleteThin of an active device; ReserveMetadataSnap while one is held. A pool that is out of data space
  // takes messages. kNoSpace: no metadata is free; for ReserveMetadataSnap: no more than the low water mark.
  // kIo: the commit failed. The pool is read-only then, without the change. kInvalidArgument: more than 24
  // bits. kUnavailable: the pool is suspended: its commit might wait for good. Waits for disks. DM_TARGET_MSG.
  virtual Status SendToPool(const std::string& uuid, const PoolMessage& message) = 0;

  // Suspends the device: waits until all its I/O has reached the disks, and holds back further I/O until
  // Resume(). OK if it is suspended already. Use Suspension (dm/suspension.h), which resumes in any case.
  // Waits for disks and, with kTake, for the write-back of the file system, without a limit. kNotFound: not
  // active. kPrecondition (EBUSY): kTake, and the file system is frozen already (kernels before 6.12).
  // kIo: kTake, and a write that waited in memory failed; not every kernel reports that. DM_DEV_SUSPEND.
  virtual Status Suspend(const std::string& uuid, FileSystemLock lock) = 0;

  // Resumes the device. A loaded table that waits replaces the current one, as when LVM resumes. OK if it was
  // not suspended. kNotFound: not active. DM_DEV_SUSPEND.
  virtual Status Resume(const std::string& uuid) = 0;

  // Drops a loaded table that waits for a resume, and its size (DmControl::SetSizeOfArray). OK if none waits.
  // kNotFound: not active. Waits for the legs of a RAID device. DM_TABLE_CLEAR.
  virtual Status DropWaitingTable(const std::string& uuid) = 0;

  // Whether the running kernel has, or can load, this target ("raid", "striped", "linear"):
  // DM_GET_TARGET_VERSION.
  virtual Result<bool> HasTarget(const std::string& target) = 0;
};

}  // namespace quarry::dm
