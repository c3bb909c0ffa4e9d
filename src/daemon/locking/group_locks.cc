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
  const std::string name = "vg-" + group;
  {
    const MutexLock guard(mutex_);
    if (names_.contains(group)) {
      return Ok();
    }
    QUARRY_ASSIGN(std::optional<NodeLock> lock, NodeLock::TryTake(by_name_, name));
    if (lock.has_value()) {
      names_.emplace(group, std::move(*lock));
      return Ok();
    }
  }
  // Without the mutex: other groups do not wait until the holder is found.
  return NodeLock::Held(by_name_, name, BelongsToAnother(group));
}

Result<bool> FlockGroupLocks::Claim(const std::string& group, const std::string& uuid) {
  const std::string name = "quarry-" + uuid;
  {
    const MutexLock guard(mutex_);
    if (held_.contains(uuid)) {
      uuids_[group] = uuid;
      return false;
    }
    QUARRY_ASSIGN(std::optional<NodeLock> lock, NodeLock::TryTake(by_uuid_, name));
    if (lock.has_value()) {
      held_.emplace(uuid, std::move(*lock));
      uuids_[group] = uuid;
      return true;
    }
  }
  return NodeLock::Held(by_uuid_, name, BelongsToAnother(group));
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
