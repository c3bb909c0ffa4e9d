// What quarryd keeps in memory for one pool. None of it has to survive a restart; zeroed_file.h keeps `clean`
// over an orderly one.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/store_ladder.h"
#include "engine/plan/actions.h"
#include "engine/plan/zeroed_extents.h"
#include "engine/pool/activation.h"
#include "engine/pool/gate.h"
#include "engine/pool/locks.h"
#include "engine/pool/lookout.h"
#include "engine/world.h"

namespace quarry::engine {

// Why the last attempt failed to make or grow a thin store; empty: it did not.
struct StoreErrors {
  std::string change;
};

// A pool at work. Each pool has its own start, gate and turns.
struct Pool {
  Pool(PoolConfig c, lvm::LvmApi& lvm)
      : config(std::move(c)),
        lookout([this, &lvm](const Call& call) { return lvm.Read(config.group, call); }) {}
  PoolConfig config;
  Gate gate;  // opened by the pool's start
  WriterQueue writers;
  Activations activations;

  // The catalog of the last snapshot. A snapshot that is proven fresh is the same object again, so the tags
  // of a thousand volumes (4 ms) are read only after a change.
  Mutex catalog_mutex;
  std::shared_ptr<const Catalog> catalog ABSL_GUARDED_BY(catalog_mutex);
  // The unhealthy disks that `catalog` was made with.
  std::shared_ptr<const UnhealthyDisks> catalog_weak ABSL_GUARDED_BY(catalog_mutex);
  // The logged reason why the pool became unavailable (kPrecondition, such as a missing group). Empty: it did
  // not since it was last read.
  std::string told ABSL_GUARDED_BY(catalog_mutex);
  std::optional<Error> start_error ABSL_GUARDED_BY(catalog_mutex);  // of the last start, if that failed
  // By name of the store, as of the pool's start.
  std::map<std::string, StoreErrors> store_errors ABSL_GUARDED_BY(catalog_mutex);
  // By name of the store: what was logged last of how full an overcommitted store is.
  std::map<std::string, StoreFill> store_fill ABSL_GUARDED_BY(catalog_mutex);
  // The same: how fast it fills.
  std::map<std::string, FillTrend> store_trends ABSL_GUARDED_BY(catalog_mutex);
  // Names of volumes whose creation was sent to other nodes while the group was missing.
  std::set<std::string> given_up ABSL_GUARDED_BY(catalog_mutex);

  // Logical volumes with the creating marker that this process still needs: new volumes, and those that hold
  // extents while they are zeroed. They are not left over from a crash.
  Mutex making_mutex;
  std::set<std::string> making ABSL_GUARDED_BY(making_mutex);
  // Logical volumes with the tag of deleted volumes that this process fills with copies (Catalog::copying).
  std::set<std::string> copying ABSL_GUARDED_BY(making_mutex);
  // Unfinished copies of an earlier process, by name of their logical volume. Until this time a repeated call
  // may go on with one (calls/unfinished_copies.h), and the eraser leaves it alone.
  std::map<std::string, SteadyTime> unfinished ABSL_GUARDED_BY(making_mutex);
  // The LVs that held free space while it was zeroed (erase/free_zeroing.h), the latest last. A name is added
  // before its LV exists. The last few stay after the removal, because a reader may have seen the group as it
  // was a moment ago: no reader counts the space as taken.
  std::deque<std::string> free_zeroing ABSL_GUARDED_BY(making_mutex);
  // Since when each create, by name, has been waiting for space that is being erased.
  std::map<std::string, SteadyTime> waiting ABSL_GUARDED_BY(making_mutex);
  ZeroedExtents clean;  // used under the turn only
  // Whether the kernel has looked at the legs of the RAID snapshots since this process began (RestSnapshots).
  std::atomic<bool> snapshots_seen = false;
  // UUIDs of the snapshots that were active and not open at the last look at the disks.
  std::set<std::string> idle_snapshots ABSL_GUARDED_BY(making_mutex);

  Lookout lookout;  // last: its thread uses the above
};

// Executes `plan`. If all of it succeeds, records its commits in `pool.clean`. The caller has the pool's
// turn.
inline Status RunCounted(Pool& pool, const Plan& plan, const World& world, const Call& call) {
  pool.clean.Forget(ExtentsOf(plan, true));
  QUARRY_TRY(Execute(plan, world, call));
  for (const Action& action : plan) {
    pool.clean.Committed(CommitsOf(action));
  }
  return Ok();
}

}  // namespace quarry::engine
