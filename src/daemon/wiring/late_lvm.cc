#include "daemon/wiring/late_lvm.h"

namespace quarry::daemon {

Result<lvm::LvmApi*> LateLvm::Get(const Call& call) {
  const MutexLock lock(mutex_);
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

Status LateLvm::Apply(const lvm::Change& change, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Apply(change, call);
}

Result<std::string> LateLvm::Version(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(lvm::LvmApi* const lvm, Get(call));
  return lvm->Version(group, call);
}

}  // namespace quarry::daemon
