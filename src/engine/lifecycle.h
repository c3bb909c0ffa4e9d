// Starting and stopping, and how the node stands.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/types.h"

namespace quarry::engine {

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Lifecycle {
 public:
  // `parts` outlives it.
  explicit Lifecycle(Parts& parts) : parts_(parts) {}

  // Finishes or undoes what an earlier process left half-done of a pool, takes its holds again, then starts
  // its eraser and serves it. While that runs for the first time calls for the pool wait for it; once it has
  // failed they are kUnavailable, saying why, until a repetition succeeds. Other pools, and taking volumes
  // from where they are mounted, do not depend on it. kInvalidArgument: no such pool. A pool that is served:
  // OK.
  Status StartPool(const std::string& name, const Call& call);
  // The same for one pool after the other, whatever becomes of each; the first error.
  Status Start(const Call& call);
  // Refuses new calls (kUnavailable), waits for those in flight until the deadline, stops the erasers and
  // what callers left behind (mkfs, fsck). kTimeout if some were still running.
  Status Stop(const Call& call);

  // Ready while any pool serves, with the reasons of those that do not. None does: not ready while one
  // starts, else an error, kPrecondition mostly, naming what is missing (tool, kernel target, volume group),
  // or which commands are stuck in the kernel, once there are too many of them.
  Result<Readiness> Probe(const Call& call);

  // How the pools stand, for monitoring. One that does not serve is there with the reason.
  Result<std::vector<PoolFigures>> Pools(const Call& call);

  // Every pool with its disks and volumes, and how they are (listing.cc).
  Result<std::vector<PoolStatus>> NodeStatus(const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
