#include "daemon/wiring/lvm_by_group.h"

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

Result<std::string> LvmByGroup::Fingerprint(const lvm::Snapshot& snapshot, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(snapshot->name));
  return lvm->Fingerprint(snapshot, call);
}

Result<std::string> LvmByGroup::Version(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Version(group, call);
}

Result<lvm::Snapshot> LvmByGroup::Read(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(group));
  return lvm->Read(group, call);
}

Status LvmByGroup::Apply(const lvm::Change& change, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Of(lvm::GroupOf(change)));
  return lvm->Apply(change, call);
}

}  // namespace quarry::daemon
