// Executes what plan_repair.h plans: looks at the disks and legs of every pool, takes disks back, rebuilds
// legs, reduces groups. This file has the rounds and turns: which pool, which step, when again. observe.h
// looks; retry_book.h, disk_memory.h and condition_log.h remember; copy_job.h copies. The truth is in LVM and
// the kernel, so whatever a crash interrupts is planned again.
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
  // One pool in one round.
  struct PoolRound {
    Pool& pool;
    RepairCause cause;
    const std::set<std::string>& accepted;
    const Call& call;
    RepairReport& report;                // of all pools
    std::set<std::string> refused = {};  // PV UUIDs: LVM refused in this round to take them back
  };
  struct Failure;
  static Failure PoolFailure(const Pool& pool);
  static Failure FailureOf(const Pool& pool, const RepairStep& step);

  void RepairPool(PoolRound& round);
  // The next step: a repair, else a scrub.
  RepairPlan PlanStep(const RepairView& view, PoolRound& round);
  void NothingToDo(RepairPlan plan, PoolRound& round);

  // Executes a step under the turn, or begins a copy that may take hours. Returns whether this round may
  // execute another step.
  bool RunStep(RepairStep step, PoolRound& round);
  // Reports the copy of the pool once it has ended.
  void CollectCopy(PoolRound& round);
  Status Do(Pool& pool, const RepairStep& step, const Call& call, RepairReport& report);
  void Tell(const Pool& pool, const RepairStep& step, RepairReport& report);
  // Records the result of a step: when it is tried again, and what it means for scrubs.
  void AfterStep(const RepairStep& step, const Status& done, PoolRound& round);
  void AfterScrub(const RepairStep& step);
  // Logs a failure and schedules another attempt, later each time.
  void Failed(const Failure& failure, const Error& error, PoolRound& round);
  // Whether the step may be tried now. If not, the report says when.
  bool IsDue(const RetryKey& key, PoolRound& round);
  std::optional<RepairStep> NextScrub(const Pool& pool, const RepairView& view);
  void LogAbortedScrubs(const Pool& pool, const std::vector<std::string>& aborted);

  // Notes since when disks are missing, and passes the missing disks to the eraser.
  void NoteDisks(Pool& pool, const Catalog& catalog);
  // Collect what PlanRepair needs, from the group as it is now (observe.h), and write down what is to be
  // remembered. `disks`: as for ObserveVolume.
  Result<RepairView> Look(const Catalog& catalog, PoolRound& round);
  RepairView LookAtDisks(const Catalog& catalog, PoolRound& round);
  Result<std::vector<VolumeView>> LookAtVolumes(const Catalog& catalog, PoolRound& round);
  Result<VolumeView> LookAt(const Record& record, const RaidReport& raid, bool disks, PoolRound& round);

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
