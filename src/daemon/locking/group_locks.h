// One quarryd per volume group, by locks that all processes of the host see, including those in containers.
#pragma once

#include <map>
#include <string>

#include "base/mutex.h"
#include "daemon/locking/node_lock.h"
#include "lvm/group_locks.h"

namespace quarry::daemon {

// Two locks for each group:
// - By UUID, in LVM's lock folder ("quarry-<uuid>.lock"). All processes that change the group must share that
//   folder. LVM commands hold this lock too.
// - By name, in kLockDirectory. Earlier builds take this lock. A group that does not exist yet has no other.
//
// A group that is recreated gets another UUID and therefore another lock. The old lock is kept, because the
// old group may live on under another name. Thread-safe.
class FlockGroupLocks final : public lvm::GroupLocks {
 public:
  FlockGroupLocks(std::string by_name, std::string by_uuid)
      : by_name_(std::move(by_name)), by_uuid_(std::move(by_uuid)) {}

  Status ClaimName(const std::string& group) override;
  Result<bool> Claim(const std::string& group, const std::string& uuid) override;
  Status Check(const std::string& group) const override;
  Result<int> ForCommand(const std::string& group) const override;

 private:
  Status CheckLocked(const std::string& group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The lock that commands hold; nullptr if the group was not claimed.
  const NodeLock* Find(const std::string& group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string by_name_;
  const std::string by_uuid_;
  mutable Mutex mutex_;
  std::map<std::string, NodeLock> names_ ABSL_GUARDED_BY(mutex_);     // by the group's name
  std::map<std::string, std::string> uuids_ ABSL_GUARDED_BY(mutex_);  // current, by the group's name
  std::map<std::string, NodeLock> held_ ABSL_GUARDED_BY(mutex_);      // by UUID
};

}  // namespace quarry::daemon
