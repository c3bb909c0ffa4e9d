// Start, stop, and the status of the node.
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
  // `parts` must outlive this object.
  explicit Lifecycle(Parts& parts) : parts_(parts) {}

  // Finishes or undoes what an earlier process left unfinished in a pool, opens published raw devices again,
  // then starts the pool's eraser and serves the pool. While the first start runs, calls for the pool wait.
  // After a failed start they get kUnavailable and the reason, until a repeated start succeeds. Other pools,
  // unpublish and unstage do not depend on it. kInvalidArgument: no such pool. OK if the pool is served
  // already.
  Status StartPool(const std::string& name, const Call& call);
  // Starts one pool after the other. A pool that fails does not stop the others. Returns the first error.
  Status Start(const Call& call);
  // Refuses new calls (kUnavailable), waits until the deadline for calls in flight, and stops the erasers and
  // the steps that callers left behind (mkfs, fsck). kTimeout: some calls were still running.
  Status Stop(const Call& call);

  // Ready while any pool serves, with the reasons of the pools that do not. If no pool serves: not ready
  // while one of them starts, otherwise an error, mostly kPrecondition. The error names the missing tool,
  // kernel target or volume group, or the commands that are stuck in the kernel once there are too many of
  // them.
  Result<Readiness> Probe(const Call& call);

  // Figures of every pool, for monitoring. A pool that does not serve is included, with the reason.
  Result<std::vector<PoolFigures>> Pools(const Call& call);

  // Every pool with the state of its disks and volumes (calls/listing.cc).
  Result<std::vector<PoolStatus>> NodeStatus(const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
