// What the repair loop remembers of the disks of its pool: since when they are missing, and since when they
// count as failing because legs on them fail again and again. Logs each change.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/call.h"
#include "base/log.h"
#include "dm/dm_api.h"
#include "engine/disks/health_memory.h"
#include "engine/model/catalog.h"
#include "engine/repair/plan_repair.h"
#include "engine/repair/retry_book.h"

namespace quarry::engine {

// After this number of failed attempts to take a leg back, the leg is replaced on another disk: after 90 s if
// it fails at once each time.
inline constexpr int kRefreshAttempts = 3;

// Not thread-safe: the repair loop guards it. Its memory need not survive a restart: a disk that is still
// missing is then waited for again.
class DiskMemory {
 public:
  // The arguments must outlive this object.
  DiskMemory(const Logger& log, std::string pool, const Clock& clock, dm::DmApi& dm, HealthMemory& healths,
             RetryBook& retries)
      : log_(log), pool_(std::move(pool)), clock_(clock), dm_(dm), healths_(healths), retries_(retries) {}

  // Notes which disks of the group are missing now, and returns their PV UUIDs. Failures caused by a disk's
  // absence are forgotten when the disk returns, if it was really pulled (ReturnedDisk in observe.h).
  std::set<std::string> NoteMissing(const Catalog& catalog);
  // Since when disks are missing, by PV UUID, as of the last NoteMissing.
  const std::map<std::string, SteadyTime>& missing_since() const { return missing_since_; }

  // Marks the disks on which legs fail again and again as failing, so they get no new extents. The mark ends
  // one day after the last such failure.
  void NoteFailures(const RepairView& view);

 private:
  const Logger& log_;
  const std::string pool_;
  const Clock& clock_;
  dm::DmApi& dm_;
  HealthMemory& healths_;
  RetryBook& retries_;
  std::map<std::string, SteadyTime> missing_since_;  // by PV UUID
  std::map<std::string, SteadyTime> failing_since_;  // by PV UUID; since the last failure
};

}  // namespace quarry::engine
