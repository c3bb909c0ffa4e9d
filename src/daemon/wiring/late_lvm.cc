#include "daemon/wiring/late_lvm.h"

namespace quarry::daemon {

Result<lvm::LvmApi*> LateLvm::Get(const Call& call) {
  const std::scoped_lock lock(mutex_);
  if (!lvm_) {
    auto made = make_(call);
    if (!made.has_value()) {
      const bool missing = made.error().code() == Code::kNotFound;
      return missing ? std::move(made.error()).As(Code::kPrecondition) : std::move(made.error());
    }
    lvm_ = std::move(*made);
  }
  return lvm_.get();
}

Result<lvm::Snapshot> LateLvm::Read(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Read(group, call);
}

Status LateLvm::Create(const lvm::CreateGroup& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Create(spec, call);
}

Status LateLvm::Create(const lvm::CreateLv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Create(spec, call);
}

Status LateLvm::Extend(const lvm::ExtendLv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Extend(spec, call);
}

Status LateLvm::Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                       const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Remove(group, names, seqno, call);
}

Status LateLvm::ChangeTags(const std::string& group, const std::string& name,
                           const std::vector<std::string>& add, const std::vector<std::string>& remove,
                           const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->ChangeTags(group, name, add, remove, call);
}

Status LateLvm::Activate(const std::string& group, const std::vector<std::string>& names, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Activate(group, names, call);
}

Status LateLvm::Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                           const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Deactivate(group, name, seqno, call);
}

Status LateLvm::Refresh(const std::string& group, const std::vector<std::string>& names, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Refresh(group, names, call);
}

Status LateLvm::Repair(const lvm::RepairLv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Repair(spec, call);
}

Status LateLvm::LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                              const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->LimitRecovery(group, names, rate, call);
}

Status LateLvm::RestorePv(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->RestorePv(group, device, call);
}

Status LateLvm::DropMissingPvs(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->DropMissingPvs(group, call);
}

Status LateLvm::ChangePv(const lvm::PvChange& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->ChangePv(spec, call);
}

Status LateLvm::Move(const lvm::MoveExtents& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Move(spec, call);
}

Status LateLvm::AbandonMove(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->AbandonMove(group, device, call);
}

Status LateLvm::RemovePv(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->RemovePv(group, device, call);
}

Result<std::string> LateLvm::Version(const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Version(call);
}

Status LateLvm::Add(const lvm::AddPv& spec, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Add(spec, call);
}

}  // namespace quarry::daemon
