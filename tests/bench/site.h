// Where benchmarks are measured: a volume group on some of the guest's disks, and a quarryd that serves it.
#pragma once

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

class Site {
 public:
  // quarryd makes the group itself, so with the 64 MiB of metadata that it gives to its groups.
  static Result<std::unique_ptr<Site>> Make(const std::string& group, std::vector<std::string> disks);

  const std::string& group() const { return group_; }
  vm::CsiClient& client() { return *client_; }
  vm::QuarrydProcess& quarryd() { return *quarryd_; }

  // What LVM's commands took since quarryd started.
  Result<LvmTimes> Times() const { return ReadLvmTimes(Metrics()); }

  // In order.
  Status Stop();
  // Returns when it runs, which is before it is ready.
  Status Launch();

  // A linear or raid1 volume that must be made. Its id.
  Result<std::string> Create(const std::string& name, const std::string& type, int64_t size = kSmall);
  Status Delete(const std::string& id);
  std::string DeviceOf(const std::string& id) const;

  // Takes every LV away, whoever made it, and waits for what is being erased.
  Status Clear();
  // So that `count` volumes of this type, 4 MiB each and active, are all there is: the first ten by quarryd
  // itself, the others by MultiplyVolumes. Nothing is done if that is so since the last Fill.
  Status Fill(const std::string& type, size_t count);

  // Until nothing that was deleted is still being cleared.
  Status WaitErased();

 private:
  Site(std::string group, std::vector<std::string> disks);
  Status Restore(const std::string& backup);
  vm::QuarrydOptions Options() const;
  std::string Metrics() const { return Folder() + "/metrics.sock"; }
  std::string Folder() const { return "/run/quarry-bench/" + group_; }

  std::string group_;
  std::vector<std::string> disks_;
  std::string empty_;     // vgcfgbackup of the group without LVs
  std::string contents_;  // type and count of the last Fill; empty if something else was made or taken since
  std::unique_ptr<vm::QuarrydProcess> quarryd_;
  std::unique_ptr<vm::CsiClient> client_;
};

// A tool that must succeed.
Status Run(const std::vector<std::string>& argv);
// The same, measured.
Status RunTimed(Samples& samples, const std::vector<std::string>& argv);
// A call that must succeed.
template <typename Response>
Status Must(const std::string& what, const vm::Reply<Response>& reply) {
  return reply.ok() ? Ok() : Status(Error(Code::kInternal, what + ": " + reply.text()));
}
// Waits until udevd has nothing to do: what it does for the last command is not to slow the next one.
void Settle();

}  // namespace quarry::bench
