// Executes what plan_repair.h plans: looks at the disks and legs of every pool, takes disks back, rebuilds
// legs, reduces groups. It remembers only since when a disk is missing and which attempts failed. The truth
// is in LVM and the kernel, so whatever a crash interrupts is planned again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/disks/health_memory.h"
#include "engine/erase/erasers.h"
#include "engine/pool/node.h"
#include "engine/repair/condition_log.h"
#include "engine/repair/copy_job.h"
#include "engine/repair/disk_memory.h"
#include "engine/repair/plan_repair.h"
#include "engine/repair/plan_scrub.h"
#include "engine/repair/retry_book.h"

namespace quarry::engine {

// Thread-safe. One round runs at a time; another caller waits.
class RepairLoop {
 public:
  // The arguments must outlive this object.
  RepairLoop(Node& node, Erasers& erasers, HealthMemory& healths, Scrubs& scrubs)
      : node_(node),
        erasers_(erasers),
        scrubs_(scrubs),
        disks_(node.log, node.world.clock, node.world.dm, healths, retries_),
        conditions_(node.log) {}

  // Looks at every pool and executes the steps that are due. `accepted`: ids of volumes that an administrator
  // wants started from the legs that are present.
  RepairReport Round(RepairCause cause, const std::set<std::string>& accepted, const Call& call);
  // Aborts running copies; they continue after the next start. No call may follow.
  void Stop();

 private:
  void CollectCopy(const Pool& pool, const Call& call, RepairReport& report);
  void Tell(const Pool& pool, const RepairStep& step, RepairReport& report);

  void RepairPool(Pool& pool, RepairCause cause, const std::set<std::string>& accepted, const Call& call,
                  RepairReport& report);
  // Collects what PlanRepair needs, from the group as it is now.
  Result<VolumeView> LookAt(const Record& record, const RaidReport& raid, RepairCause cause, bool disks,
                            RepairReport& report);
  Result<RepairView> Look(Pool& pool, const Catalog& catalog, RepairCause cause, RepairReport& report);
  // Notes since when disks are missing, and passes the missing disks to the eraser.
  void NoteDisks(Pool& pool, const Catalog& catalog);
  // Whether the step may be tried now. If not, the report says when.
  bool IsDue(const RetryKey& key, RepairCause cause, RepairReport& report);
  void Failed(const RetryKey& key, const std::string& what, const Pool& pool, const Error& error,
              const Call& call, RepairReport& report);
  // Returns whether this round may execute another step.
  bool AfterStep(const Pool& pool, const RepairStep& step, const Status& done, const Call& call,
                 RepairReport& report);
  void AfterEvacuation(const Pool& pool, const Status& done, const Call& call, RepairReport& report);
  void AfterScrub(const Pool& pool, const RepairStep& step, const Status& done, const Call& call,
                  RepairReport& report);
  std::optional<RepairStep> NextScrub(const Pool& pool, const RepairView& view);
  void TellOfLost(const Pool& pool, const std::vector<std::string>& lost);
  Status Do(Pool& pool, const RepairStep& step, const Call& call, RepairReport& report);

  Node& node_;
  Erasers& erasers_;
  Scrubs& scrubs_;
  std::mutex mutex_;
  // Guarded by mutex_:
  RetryBook retries_;
  DiskMemory disks_;
  ConditionLog conditions_;
  std::map<std::string, std::unique_ptr<CopyJob>> copies_;  // by pool
};

}  // namespace quarry::engine
