// LVM's own lock of a volume group, held for reading. Meanwhile no process can commit a change of the group
// or activate one of its volumes: such LVM commands of this host wait. The lock is shared, so commands that
// only read wait only while a command that changes the group is waiting. The protocol is that of
// lib/misc/lvm-flock.c.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "lvm/lvm_api.h"

namespace quarry::lvm {

// Movable. Releases the lock when destroyed.
class GroupReadLock final : public GroupHold {
 public:
  // Waits until no LVM command changes the group or waits to change it. `locking_dir` is LVM's
  // global/locking_dir, the same for all LVM commands of the host. kTimeout, kCancelled: `call` ended first.
  // kUnavailable: the lock files cannot be opened.
  static Result<GroupReadLock> Take(const std::string& locking_dir, const std::string& group,
                                    const Call& call);
  ~GroupReadLock() override;
  GroupReadLock(GroupReadLock&& other) noexcept = default;
  GroupReadLock& operator=(GroupReadLock&& other) = delete;

 private:
  GroupReadLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace quarry::lvm
