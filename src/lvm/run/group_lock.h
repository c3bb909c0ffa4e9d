// LVM's own lock of a volume group. Held for reading: no process can commit a change of the group or activate
// one of its volumes; such LVM commands of this host wait. Other readers wait only while a command that
// changes the group is waiting. Held for writing: no other process of this host reads or changes the group by
// LVM either. The protocol is that of lib/misc/lvm-flock.c.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "lvm/lvm_api.h"

namespace quarry::lvm {

// Movable. Releases the lock when destroyed.
class GroupLock final : public GroupHold {
 public:
  enum class Mode { kRead, kWrite };

  // Waits for the lock. For reading: until no LVM command changes the group or waits to change it. For
  // writing: until no LVM command uses the group. `locking_dir` is LVM's global/locking_dir, the same for all
  // LVM commands of the host. kTimeout, kCancelled: `call` ended first. kUnavailable: the lock files cannot
  // be opened.
  static Result<GroupLock> Take(const std::string& locking_dir, const std::string& group, Mode mode,
                                const Call& call);
  ~GroupLock() override;
  GroupLock(GroupLock&& other) noexcept = default;
  GroupLock& operator=(GroupLock&& other) = delete;

  // For a command that runs under this lock (with LVM's own locking turned off). It keeps the descriptor open
  // until it ends, so it has the lock even if this process dies. The descriptor remains owned by this object.
  int fd() const { return fd_.get(); }
  // Gives up this object's share. If a command still has the descriptor, the lock lasts until it ends.
  void LeaveToCommand() { fd_.Reset(); }

 private:
  GroupLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace quarry::lvm
