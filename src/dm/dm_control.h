// Requests to device-mapper that may wait for a disk.
//
// libdevmapper serves one request at a time in the process (dm_task.h), so a request that waits there would
// stop every other one, for pools whose disks are well, too. These requests go to the kernel directly, each
// on a descriptor of its own. What they wait for:
//
// - a message to a thin pool: the commit of the pool's metadata, to its metadata and data devices;
// - the status of a thin pool or thin device, even without a flush: a commit in progress, because both take
//   the lock of the metadata;
// - a suspend: I/O in flight, and the write-back of the file system;
// - a table of a RAID device that is loaded or dropped: its legs.
//
// A thread that waits cannot be interrupted if the disk does not answer.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dm/thin_api.h"

namespace quarry::dm {

class DmControl {
 public:
  // kUnavailable: no device-mapper here.
  static Result<DmControl> Open();

  // The first line of a device's status, read without a flush. Type and parameters are empty if the device
  // has no table yet. nullopt: no such device.
  struct Line {
    std::string name, uuid, type, parameters;
  };
  Result<std::optional<Line>> Status(const std::string& uuid) const;

  // Each returns 0, or the errno of the kernel's refusal. ENXIO: no such device.
  int Message(const std::string& uuid, const std::string& text) const;
  // A device that is suspended already stays so: 0.
  int Suspend(const std::string& uuid, FileSystemLock lock) const;
  int Resume(const std::string& uuid) const;
  int DropWaitingTable(const std::string& uuid) const;
  // Gives a RAID device the size of its current table. The kernel gives it that of a table which is only
  // loaded (Linux 6.12 does, 6.1 does not), and it stays when that table is dropped: accesses above the
  // current table fail. The size is set again when tables are exchanged, so the current one is loaded once
  // more and used. 0, without effect: the size is right, or no RAID device, or it is suspended: its legs may
  // be shorter than its table.
  int SetSizeOfArray(const std::string& uuid) const;

 private:
  explicit DmControl(UniqueFd control) : control_(std::move(control)) {}

  UniqueFd control_;
};

}  // namespace quarry::dm
