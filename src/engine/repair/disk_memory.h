// What the repair loop remembers of the disks of its pool: since when they are missing, and since when they
// count as failing because legs on them fail again and again. Logs each change.
#pragma once

#include <chrono>
#include <map>
#include <optional>
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

// Not thread-safe: the repair loop guards it. Since when a disk is missing need not survive a restart: it is
// then waited for again. That its legs fail must survive, or the cause of a replaced leg would be forgotten
// with the next update of quarryd: a tag of the PV has it (lvm::DroppingTag).
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
  // one day after the last such failure, or when an administrator removes the PV's tag.
  void NoteFailures(const RepairView& view);

  // Follows the tags: a PV that is seen for the first time may have one from before the start.
  void ReadTags(const lvm::VolumeGroup& group);

  // Changes the PV's tag to what is remembered of it. nullopt: the tag is right, or LVM cannot change it now.
  std::optional<RepairStep> PlanTag(const lvm::VolumeGroup& group, const lvm::PhysicalVolume& pv) const;

 private:
  void Restore(const lvm::PhysicalVolume& pv);
  void EndFailing(const std::string& pv_uuid);
  std::chrono::sys_seconds InWallTime(SteadyTime since) const;

  const Logger& log_;
  const std::string pool_;
  const Clock& clock_;
  dm::DmApi& dm_;
  HealthMemory& healths_;
  RetryBook& retries_;
  std::map<std::string, SteadyTime> missing_since_;  // by PV UUID
  std::map<std::string, SteadyTime> failing_since_;  // by PV UUID; since the last failure
  std::set<std::string> seen_;                       // PV UUIDs
  std::set<std::string> tagged_;                     // PV UUIDs: their tag was there at the last look
};

}  // namespace quarry::engine
