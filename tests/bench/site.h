// The place of a benchmark: a volume group on some of the guest's disks, and a quarryd that serves it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/bench/lvm_times.h"
#include "tests/bench/samples.h"
#include "tests/vm/kit/csi_client.h"
#include "tests/vm/kit/quarryd_process.h"

namespace quarry::bench {

inline constexpr int64_t kSmall = 16 * vm::kMi;
inline constexpr int64_t kFillSize = 4 * vm::kMi;  // of each volume of Site::Fill

class Site {
 public:
  // quarryd makes the group itself, with the 64 MiB of metadata that it gives to its groups. `stores`: names
  // and definitions of thin stores, as in quarryd's configuration. A site with stores is not for Clear and
  // Fill, which would remove them.
  static Result<std::unique_ptr<Site>> Make(const std::string& group, std::vector<std::string> disks,
                                            std::map<std::string, std::string> stores = {});

  const std::string& group() const { return group_; }
  vm::CsiClient& client() { return *client_; }
  // The address of quarryd's services, for gRPC.
  std::string Address() const { return "unix://" + Options().socket; }
  vm::QuarrydProcess& quarryd() { return *quarryd_; }

  // The durations of LVM's commands since quarryd started.
  Result<LvmTimes> Times() const { return ReadLvmTimes(Metrics()); }

  // Stops quarryd in order.
  Status Stop();
  // Returns when quarryd runs, which is before it is ready.
  Status Launch();

  // Creates a linear or raid1 volume and returns its id. Fails if that fails. `erase`: the parameter. "none"
  // permits extents of any content; after "zero" the extents of a raw volume must be zero.
  Result<std::string> Create(const std::string& name, const std::string& type, int64_t size = kSmall,
                             const std::string& erase = "none");
  Status Delete(const std::string& id);
  std::string DeviceOf(const std::string& id) const;

  // Waits for running erasures, then removes every LV, whichever process made it.
  Status Clear();
  // Afterwards the group has exactly `count` volumes of this type, 4 MiB each and active if linear: quarryd
  // makes the first ten, MultiplyVolumes the others. Does nothing if the last Fill was the same and nothing
  // changed since.
  Status Fill(const std::string& type, size_t count);

  // Makes quarryd know that `size` free bytes of two disks, the first that it would use, are zero.
  Status Zero(int64_t size);

  // Waits until no deleted volume is being erased.
  Status WaitErased();

 private:
  Site(std::string group, std::vector<std::string> disks, std::map<std::string, std::string> stores);
  Status Restore(const std::string& backup);
  vm::QuarrydOptions Options() const;
  std::string Metrics() const { return Folder() + "/metrics.sock"; }
  std::string Folder() const { return "/run/quarry-bench/" + group_; }

  std::string group_;
  std::vector<std::string> disks_;
  std::map<std::string, std::string> stores_;
  std::string empty_;     // vgcfgbackup of the group without LVs
  std::string contents_;  // type and count of the last Fill; empty after any other change
  std::unique_ptr<vm::QuarrydProcess> quarryd_;
  std::unique_ptr<vm::CsiClient> client_;
};

// Activates all linear volumes of a group as quarryd does: without udev's part, for which quarryd does not
// wait either.
Status ActivateAll(const std::string& group);
Result<std::string> FileText(const std::string& path);
// Runs a tool that must succeed.
Status Run(const std::vector<std::string>& argv);
// The same, with its duration added to `samples`.
Status RunTimed(Samples& samples, const std::vector<std::string>& argv);
// An error if the call failed.
template <typename Response>
Status Must(const std::string& what, const vm::Reply<Response>& reply) {
  return reply.ok() ? Ok() : Status(Error(Code::kInternal, what + ": " + reply.text()));
}
// Waits until udevd is idle, so that its work for the last command does not slow the next one.
void Settle();

}  // namespace quarry::bench
