// Upkeep that quarryd does by itself, or when an administrator asks for it: repairs, scrubs, trimming.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/upkeep_requests.h"

namespace quarry::engine {

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Upkeep {
 public:
  // `parts` must outlive this object.
  explicit Upkeep(Parts& parts) : parts_(parts) {}

  // Inspects disks and legs, and repairs what can be repaired (repair/repair_loop.h). Each change of a
  // volume's condition is logged once. Waits for a round of the same pool that is under way. `accepted`: ids
  // of volumes that an administrator wants started from the present legs, although missing legs may be newer
  // (raid/stopped_array.h). `pool`: only this pool; empty: one pool after the other. kNotFound: no volume has
  // such an id; nothing was done.
  Result<RepairReport> Repair(RepairCause cause, const Call& call, const std::set<std::string>& accepted = {},
                              const std::string& pool = "");

  // Schedules scrubs of RAID volumes, one volume of a pool at a time (repair/plan_scrub.h). NodeStatus shows
  // progress and outcome. The schedule does not survive the process. kNotFound: no such volume.
  // kInvalidArgument: the volume has no second leg.
  Result<std::vector<ScrubAnswer>> Scrub(const ScrubRequest& request, const Call& call);
  // Repairs a thin store that cannot be started, or with which the kernel cannot go on: stops it, looks at
  // its metadata, repairs damaged ones into new ones on extents of the pool, and starts it. The former
  // metadata are kept. OK if nothing is wrong with it. kNotFound, kInvalidArgument: as for
  // Lifecycle::ShowStore. kPrecondition: a volume in it is in use; a disk is missing; thin_check is not
  // installed; or the metadata and LVM's text do not belong together. kCorrupt: the metadata cannot be read
  // completely, or the repaired ones say something else. kNoSpace: no room for new metadata. Each message
  // says what helps, and the metadata are as they were, unless it says that they were exchanged.
  // (calls/store_repair.cc)
  Result<StoreRepairAnswer> RepairStore(const StoreRepairRequest& request, const Call& call);

  // `tell` is called, from any thread, when Repair has work to do that no kernel event announces. An empty
  // function ends the calls.
  void OnWork(std::function<void()> tell);

  // Trims the mounted file systems piece by piece (FITRIM): the disks learn which blocks are no longer used.
  // A volume with another operation in flight is skipped for that piece. A volume whose disks cannot discard
  // is not counted. `store`: the id of a thin store, to trim only what is in it; empty: everything.
  // kCancelled once `call` is stopped.
  Result<TrimResult> Trim(const Call& call, const std::string& store = "");

  // Looks how full the overcommitted thin stores of a pool are, logs it if that has changed, and grows those
  // that should grow (model/store_ladder.h). To be called every few seconds, for each pool by a thread of its
  // own: a disk that does not answer delays no other pool. Failures are logged, and the next call tries
  // again. Returns the ids of stores whose file systems should be trimmed.
  std::vector<std::string> TendStores(const std::string& pool, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
