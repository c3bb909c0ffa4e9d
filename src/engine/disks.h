// The disks of the node: which there are, which join a pool, how they are, and how one leaves.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/types.h"

namespace quarry::engine {

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Disks {
 public:
  // `parts` outlives it.
  explicit Disks(Parts& parts) : parts_(parts) {}

  // Every disk of the node, and why it is or is not a pool's (inventory.cc). Answered also while the engine
  // has not started, because why it cannot may be just this. kUnsupported: they cannot be listed.
  Result<std::vector<DeviceReport>> Devices(const Call& call);
  // Takes the disks that rules of the pools want and that are proven blank and unused: how many. One that
  // cannot be taken is logged. A start does it too; this is for disks that come later.
  Result<size_t> JoinDisks(const Call& call);

  // Asks the pools' disks how they are (failing_disks.h), and logs what has changed: whether anything has.
  // Waits for those that do not answer until `call` ends; what they are believed to be does not change
  // meanwhile.
  Result<bool> PollDisks(const Call& call);

  // Has a disk emptied and taken out of its group, or calls that off: from then on it gets no more extents,
  // and the mender moves what is there elsewhere (evacuation.cc). Repeated, also after a restart, it goes on.
  // kNotFound: no pool has it. kNoSpace, saying by how much. kPrecondition: it is the last one, missing, or
  // holds what is not ours. kUnsupported: the kernel cannot.
  Result<EvacuateResult> Evacuate(const EvacuateRequest& request, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
