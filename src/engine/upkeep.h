// What is done unasked, or when a person asks: repairs, comparing of legs, trimming.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/types.h"

namespace quarry::engine {

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Upkeep {
 public:
  // `parts` outlives it.
  explicit Upkeep(Parts& parts) : parts_(parts) {}

  // Looks how disks and legs are, and mends what can be mended (repair_loop.h); one line in the log for each
  // change of a volume's condition. Another round that is under way is waited for. `accepted`: ids of volumes
  // that a person wants started from the legs that are there, though others may be newer (stopped_array.h).
  // kNotFound: there is none of such an id; nothing was done.
  Result<RepairReport> Repair(RepairCause cause, const Call& call,
                              const std::set<std::string>& accepted = {});

  // Has the legs of raid volumes compared, one volume of a pool at a time (plan_scrub.h); NodeStatus shows
  // how far that is, and what came of it. Forgotten at the end of the process. kNotFound: no such volume.
  // kInvalidArgument: it has no second leg.
  Result<std::vector<ScrubAnswer>> Scrub(const ScrubRequest& request, const Call& call);
  // `tell` is called, from any thread, when there is something for Mend to do that no event of the kernel's
  // tells of. An empty one ends that.
  void OnWork(std::function<void()> tell);

  // Has the mounted file systems tell the disks which blocks they no longer use (FITRIM), piece by piece. A
  // volume with another operation in flight is passed over for that piece; one whose disks take no discards
  // counts for nothing. kCancelled once `call` is stopped.
  Result<TrimResult> Trim(const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
