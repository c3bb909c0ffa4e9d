// One quarryd a volume group: locks that all processes of the host see, also those in containers.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "daemon/locking/node_lock.h"
#include "lvm/group_locks.h"

namespace quarry::daemon {

// Two locks for each group. By its UUID in LVM's lock folder ("quarry-<uuid>.lock"), which all who change the
// group share by necessity: this is the one that commands hold too. By its name in kLockDirectory, which
// earlier builds take: it is all that there is of a group that is yet to be made.
//
// A group that gets another UUID, since it was made anew, gets another lock; the old one is kept, as its
// volumes may live on under another name. Thread-safe.
class FlockGroupLocks final : public lvm::GroupLocks {
 public:
  FlockGroupLocks(std::string by_name, std::string by_uuid)
      : by_name_(std::move(by_name)), by_uuid_(std::move(by_uuid)) {}

  Status ClaimName(const std::string& group) override;
  Result<bool> Claim(const std::string& group, const std::string& uuid) override;
  Status Check(const std::string& group) const override;
  Result<int> ForCommand(const std::string& group) const override;

 private:
  Status CheckLocked(const std::string& group) const;
  // The lock that commands hold; nullptr: nothing was claimed.
  const NodeLock* Find(const std::string& group) const;

  const std::string by_name_;
  const std::string by_uuid_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, NodeLock> names_;     // by the group's name
  std::map<std::string, std::string> uuids_;  // as of now, by the group's name
  std::map<std::string, NodeLock> held_;      // by UUID
};

}  // namespace quarry::daemon
