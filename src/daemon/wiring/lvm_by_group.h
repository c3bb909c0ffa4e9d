// One LVM for each group. What one command of LVM's waits for (a disk that does not answer, say) is in its
// own group, and how many are stuck is counted for each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lvm/lvm_api.h"

namespace quarry::daemon {

// Thread-safe if those that it asks are.
class LvmByGroup final : public lvm::LvmApi {
 public:
  // Not owned; by the group's name, at least one.
  explicit LvmByGroup(std::map<std::string, lvm::LvmApi*> groups) : groups_(std::move(groups)) {}

  // kNotFound for a group that is none of these: to this quarryd it does not exist.
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
  // Of any that can tell: they are all of one installation.
  Result<std::string> Version(const Call& call) override;

 private:
  Result<lvm::LvmApi*> Of(const std::string& group) const;

  const std::map<std::string, lvm::LvmApi*> groups_;
};

}  // namespace quarry::daemon
