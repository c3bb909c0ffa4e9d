// Looks at the disks of the node, and takes those that join.h says a pool may have.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/disks/health_memory.h"
#include "engine/model/config.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// What was said of disks, and what became of the last attempt to take one. By node and identity. Thread-safe.
class DiskNotes {
 public:
  // Whether this is news of the disk.
  bool Say(const std::string& disk, const std::string& words);
  void Failed(const std::string& disk, const std::string& why);
  void Took(const std::string& disk);
  // Empty: no attempt failed.
  std::string Failure(const std::string& disk) const;

  // Held while libblkid looks into disks: each is claimed exclusively for that time, and who meets a claim
  // takes the disk for used. A disk that hangs holds it up for everybody.
  std::timed_mutex probing;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> said_, failed_;
};

// What this room remembers.
struct NodeDisks {
  explicit NodeDisks(Node& n)
      : node(n),
        healths([&n](std::shared_ptr<const UnhealthyDisks> weak) { n.SetFailingDisks(std::move(weak)); }) {}
  Node& node;
  DiskNotes notes;
  HealthMemory healths;
};

// Adds to each pool's group the disks that its rules want and that are proven blank and unused: looks without
// the pool's turn, and once more under it, just before. How many it took. A disk that could not be taken is
// logged, and told by quarryctl. Pools without rules, and those whose group is not there, are passed over.
Result<size_t> JoinDisks(NodeDisks& node_disks, const Call& call);

// Every disk of the node, and why it is or is not a pool's. kUnsupported: they cannot be listed.
Result<std::vector<DeviceReport>> DevicesOf(NodeDisks& node_disks, const Call& call);

// Nodes of the disks that the pool's rules want for a group that is to be made, but for those that an
// explicit path names. kUnavailable if a disk says that it is of a group of this name, which LVM did not
// find.
Result<std::vector<std::string>> DisksForNewGroup(NodeDisks& node_disks, const PoolConfig& pool,
                                                  const Call& call);

}  // namespace quarry::engine
