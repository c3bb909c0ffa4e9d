// An LVM that may not be installed yet. A node without lvm2 serves Probe, which says so, and recovers once
// the package is installed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
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
  Status Apply(const lvm::Change& change, const Call& call) override;
  Result<std::string> Version(const std::string& group, const Call& call) override;

 private:
  Result<lvm::LvmApi*> Get(const Call& call);

  const Make make_;
  Mutex mutex_;
  std::unique_ptr<lvm::LvmApi> lvm_ ABSL_GUARDED_BY(mutex_);  // never changes once it is made
};

}  // namespace quarry::daemon
