#include "daemon/locking/group_locks.h"

#include <fmt/format.h>

namespace quarry::daemon {
namespace {

std::string BelongsToAnother(const std::string& group) {
  return fmt::format("volume group '{}' belongs to another quarryd, or to an LVM command that it left behind",
                     group);
}

}  // namespace

Status FlockGroupLocks::ClaimName(const std::string& group) {
  const MutexLock guard(mutex_);
  if (names_.contains(group)) {
    return Ok();
  }
  QUARRY_ASSIGN(NodeLock lock, NodeLock::Take(by_name_, "vg-" + group).Context(BelongsToAnother(group)));
  names_.emplace(group, std::move(lock));
  return Ok();
}

Result<bool> FlockGroupLocks::Claim(const std::string& group, const std::string& uuid) {
  const MutexLock guard(mutex_);
  const bool held = held_.contains(uuid);
  if (!held) {
    QUARRY_ASSIGN(NodeLock lock, NodeLock::Take(by_uuid_, "quarry-" + uuid).Context(BelongsToAnother(group)));
    held_.emplace(uuid, std::move(lock));
  }
  uuids_[group] = uuid;
  return !held;
}

Status FlockGroupLocks::Check(const std::string& group) const {
  const MutexLock guard(mutex_);
  return CheckLocked(group);
}

Result<int> FlockGroupLocks::ForCommand(const std::string& group) const {
  const MutexLock guard(mutex_);
  const NodeLock* const lock = Find(group);
  if (lock == nullptr) {
    return Error(Code::kInternal, fmt::format("volume group '{}' was used before it was locked", group));
  }
  QUARRY_TRY(CheckLocked(group));
  return lock->fd();
}

// The lock by name matters only to earlier builds, which know no other, and it may lie in a container's own
// /run. Its loss is therefore no reason to stop, unless it is the only lock of the group.
Status FlockGroupLocks::CheckLocked(const std::string& group) const {
  const NodeLock* const lock = Find(group);
  if (lock == nullptr || lock->IsThere()) {
    return Ok();
  }
  return Error(
      Code::kUnavailable,
      fmt::format("the lock file '{}' was removed or replaced, so another quarryd may have volume group "
                  "'{}' as well: nothing is changed there until this quarryd is restarted",
                  lock->path(), group));
}

const NodeLock* FlockGroupLocks::Find(const std::string& group) const {
  if (const auto uuid = uuids_.find(group); uuid != uuids_.end()) {
    return &held_.at(uuid->second);
  }
  const auto name = names_.find(group);
  return name == names_.end() ? nullptr : &name->second;
}

}  // namespace quarry::daemon
