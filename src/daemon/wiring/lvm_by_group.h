// One LVM for each volume group. When an LVM command waits, for example for a silent disk, only its own group
// waits. Stuck commands are counted for each group.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lvm/lvm_api.h"

namespace quarry::daemon {

// Thread-safe if all members of `groups` are thread-safe.
class LvmByGroup final : public lvm::LvmApi {
 public:
  // By the name of the group; at least one. The pointers are not owned.
  explicit LvmByGroup(std::map<std::string, lvm::LvmApi*> groups) : groups_(std::move(groups)) {}

  // kNotFound for a group that is not in `groups`: to this quarryd it does not exist.
  Result<lvm::Snapshot> Read(const std::string& group, const Call& call) override;
  Status Create(const lvm::CreateGroup& spec, const Call& call) override;
  Status Create(const lvm::CreateLv& spec, const Call& call) override;
  Status Extend(const lvm::ExtendLv& spec, const Call& call) override;
  Status Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                const Call& call) override;
  Status ChangeTags(const std::string& group, const std::string& name, const std::vector<std::string>& add,
                    const std::vector<std::string>& remove, const Call& call) override;
  Status Activate(const std::string& group, const std::vector<std::string>& names, const Call& call) override;
  Status Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                    const Call& call) override;
  Status Refresh(const std::string& group, const std::vector<std::string>& names, const Call& call) override;
  Status Repair(const lvm::RepairLv& spec, const Call& call) override;
  Status LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                       const Call& call) override;
  Status RestorePv(const std::string& group, const std::string& device, const Call& call) override;
  Status DropMissingPvs(const std::string& group, const Call& call) override;
  Status ChangePv(const lvm::PvChange& spec, const Call& call) override;
  Status Move(const lvm::MoveExtents& spec, const Call& call) override;
  Status AbandonMove(const std::string& group, const std::string& device, const Call& call) override;
  Status RemovePv(const std::string& group, const std::string& device, const Call& call) override;
  Status Add(const lvm::AddPv& spec, const Call& call) override;
  Result<lvm::HeldGroup> Hold(const std::string& group, const Call& call) override;
  // Asks any of the LVMs that can answer: all belong to the same installation.
  Result<std::string> Version(const Call& call) override;

 private:
  Result<lvm::LvmApi*> Of(const std::string& group) const;

  const std::map<std::string, lvm::LvmApi*> groups_;
};

}  // namespace quarry::daemon
