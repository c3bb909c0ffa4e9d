// LVM's own lock of a volume group, held for reading: nobody can commit a change of the group meanwhile, or
// activate one of its volumes; every LVM of this host waits. What LVM does in lib/misc/lvm-flock.c.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::lvm {

// Movable. Lets the lock go when it is destroyed.
class GroupReadLock {
 public:
  // Waits until no LVM changes the group, or waits to. `locking_dir` is LVM's global/locking_dir, and must be
  // the one that all others use. kTimeout, kCancelled: `call` ended first. kUnavailable: the files cannot be
  // opened.
  static Result<GroupReadLock> Take(const std::string& locking_dir, const std::string& group,
                                    const Call& call);
  ~GroupReadLock();
  GroupReadLock(GroupReadLock&& other) noexcept = default;
  GroupReadLock& operator=(GroupReadLock&& other) = delete;

 private:
  GroupReadLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace quarry::lvm
