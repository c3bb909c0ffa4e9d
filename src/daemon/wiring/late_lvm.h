// An LVM that may not be installed yet. A node without lvm2 serves Probe, which says so, and recovers once
// the package is installed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lvm/lvm_api.h"

namespace quarry::daemon {

// Thread-safe if the object that `make` returns is thread-safe.
class LateLvm final : public lvm::LvmApi {
 public:
  using Make = std::function<Result<std::unique_ptr<lvm::LvmApi>>(const Call&)>;

  // Calls `make` before the first command, and before later ones until it has succeeded. A kNotFound of
  // `make` becomes kPrecondition: a missing LVM is not the same as a missing volume group.
  explicit LateLvm(Make make) : make_(std::move(make)) {}

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
  Result<std::string> Version(const Call& call) override;
  Status Add(const lvm::AddPv& spec, const Call& call) override;

 private:
  Result<lvm::LvmApi*> Get(const Call& call);

  const Make make_;
  std::mutex mutex_;
  std::unique_ptr<lvm::LvmApi> lvm_;  // guarded by mutex_ until made, constant afterwards
};

}  // namespace quarry::daemon
