#include "daemon/wiring/lvm_by_group.h"

#include <iterator>

#include <fmt/format.h>

namespace quarry::daemon {

Result<lvm::LvmApi*> LvmByGroup::Of(const std::string& group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return Error(Code::kNotFound, fmt::format("volume group {} is not configured in this quarryd", group));
  }
  return found->second;
}

Result<lvm::HeldGroup> LvmByGroup::Hold(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Hold(group, call);
}

Result<std::string> LvmByGroup::Version(const Call& call) {
  auto version = groups_.begin()->second->Version(call);
  for (auto next = std::next(groups_.begin()); next != groups_.end() && !version.has_value(); ++next) {
    version = next->second->Version(call);
  }
  return version;
}

Result<lvm::Snapshot> LvmByGroup::Read(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Read(group, call);
}

Status LvmByGroup::Create(const lvm::CreateGroup& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.name));
  return lvm->Create(spec, call);
}

Status LvmByGroup::Create(const lvm::CreateLv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.group));
  return lvm->Create(spec, call);
}

Status LvmByGroup::Extend(const lvm::ExtendLv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.group));
  return lvm->Extend(spec, call);
}

Status LvmByGroup::Repair(const lvm::RepairLv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.group));
  return lvm->Repair(spec, call);
}

Status LvmByGroup::ChangePv(const lvm::PvChange& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.group));
  return lvm->ChangePv(spec, call);
}

Status LvmByGroup::Move(const lvm::MoveExtents& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.group));
  return lvm->Move(spec, call);
}

Status LvmByGroup::Add(const lvm::AddPv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(spec.group));
  return lvm->Add(spec, call);
}

Status LvmByGroup::Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                          const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Remove(group, names, seqno, call);
}

Status LvmByGroup::Activate(const std::string& group, const std::vector<std::string>& names,
                            const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Activate(group, names, call);
}

Status LvmByGroup::Refresh(const std::string& group, const std::vector<std::string>& names,
                           const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Refresh(group, names, call);
}

Status LvmByGroup::ChangeTags(const std::string& group, const std::string& name,
                              const std::vector<std::string>& add, const std::vector<std::string>& remove,
                              const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->ChangeTags(group, name, add, remove, call);
}

Status LvmByGroup::Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                              const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Deactivate(group, name, seqno, call);
}

Status LvmByGroup::LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                                 const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->LimitRecovery(group, names, rate, call);
}

Status LvmByGroup::RestorePv(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->RestorePv(group, device, call);
}

Status LvmByGroup::RemovePv(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->RemovePv(group, device, call);
}

Status LvmByGroup::DropMissingPvs(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->DropMissingPvs(group, call);
}

Status LvmByGroup::AbandonMove(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->AbandonMove(group, device, call);
}

}  // namespace quarry::daemon
