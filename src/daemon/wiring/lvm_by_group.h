// One LVM for each volume group. When an LVM command waits, for example for a silent disk, only its own group
// waits. Stuck commands are counted for each group.
#pragma once

#include <map>
#include <string>

#include "lvm/lvm_api.h"

namespace quarry::daemon {

// Thread-safe if all members of `groups` are thread-safe.
class LvmByGroup final : public lvm::LvmApi {
 public:
  // By the name of the group; at least one. The pointers are not owned.
  explicit LvmByGroup(std::map<std::string, lvm::LvmApi*> groups) : groups_(std::move(groups)) {}

  // All: kNotFound for a group that is not in `groups`: to this quarryd it does not exist.
  Result<lvm::Snapshot> Read(const std::string& group, const Call& call) override;
  Status Apply(const lvm::Change& change, const Call& call) override;
  Result<lvm::HeldGroup> Hold(const std::string& group, const Call& call) override;
  Result<std::string> Fingerprint(const lvm::Snapshot& snapshot, const Call& call) override;
  Result<std::string> Version(const std::string& group, const Call& call) override;

 private:
  Result<lvm::LvmApi*> Of(const std::string& group) const;

  const std::map<std::string, lvm::LvmApi*> groups_;
};

}  // namespace quarry::daemon
