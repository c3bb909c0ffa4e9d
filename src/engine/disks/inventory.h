// Surveys the disks of the node, and adds those to a pool that join.h permits.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/disks.h"
#include "engine/disks/health_memory.h"
#include "engine/model/config.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// The last logged reason, and the last failed attempt to add, of each disk. By device node and identity.
// Thread-safe.
class DiskNotes {
 public:
  // Records the reason. True if it differs from the last one for this disk.
  bool Say(const std::string& disk, const std::string& words);
  // True if the last attempt did not fail for the same reason.
  bool Failed(const std::string& disk, const std::string& why);
  void Took(const std::string& disk);
  // Why the last attempt to add the disk failed. Empty: no attempt failed.
  std::string Failure(const std::string& disk) const;
  // Forgets the failures of all other disks.
  void KeepFailures(const std::set<std::string>& disks);
  // Whether the last attempt failed for any disk.
  bool AnyFailed() const;

  // Needed to open disks exclusively (O_EXCL): for libblkid's probes, and for LVM commands that take disks.
  // Without it one of them would find a disk in use by the other. Waits some seconds. kUnavailable: its holder
  // waits for a disk that does not answer.
  using Exclusive = std::unique_lock<std::timed_mutex>;
  Result<Exclusive> OpenExclusively();

 private:
  std::timed_mutex exclusive_;  // guards no member, so it needs no annotations
  mutable Mutex mutex_;
  std::map<std::string, std::string> said_ ABSL_GUARDED_BY(mutex_), failed_ ABSL_GUARDED_BY(mutex_);
};

// This room's memory.
struct NodeDisks {
  explicit NodeDisks(Node& n)
      : node(n),
        healths([&n](std::shared_ptr<const UnhealthyDisks> weak) { n.SetFailingDisks(std::move(weak)); }) {}
  Node& node;
  DiskNotes notes;
  HealthMemory healths;
};

// Adds to each pool's group the disks that match its rules and are proven blank and free. Checks each disk
// without the pool's turn, and again under the turn, just before the disk joins. Returns how many joined. A
// disk that could not join is logged, and quarryctl shows it. Pools without rules, and pools whose group does
// not exist, are skipped.
Result<size_t> JoinDisks(NodeDisks& node_disks, JoinScope scope, const Call& call);

// Every disk of the node, and why it is or is not in a pool. While another probe, or an LVM command, waits for
// a disk that does not answer, blank disks count as not probed yet. kUnavailable: disks cannot be listed.
Result<std::vector<DeviceReport>> DevicesOf(NodeDisks& node_disks, const Call& call);

// Device nodes of the disks that match the pool's rules, for a new group. Disks that an explicit path names
// are not included. kUnavailable: a disk's label names a group with this name, which LVM did not find.
Result<std::vector<std::string>> DisksForNewGroup(NodeDisks& node_disks, const PoolConfig& pool,
                                                  const Call& call);

// Disks::PollDisks (engine/disks.h). (poll_health.cc)
Result<bool> PollDisks(NodeDisks& node_disks, const Call& call);

}  // namespace quarry::engine
