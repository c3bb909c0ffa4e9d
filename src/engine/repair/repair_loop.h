// Executes what plan_repair.h plans: looks at the disks and legs of a pool, takes disks back, rebuilds legs,
// reduces the group. It decides which step runs, and when a failed step is tried again. observe.h
// looks; retry_book.h, disk_memory.h and condition_log.h remember; copy_job.h copies. The truth is in LVM and
// the kernel, so whatever a crash interrupts is planned again.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/disks/health_memory.h"
#include "engine/erase/eraser.h"
#include "engine/model/upkeep_requests.h"
#include "engine/pool/node.h"
#include "engine/repair/condition_log.h"
#include "engine/repair/copy_job.h"
#include "engine/repair/disk_memory.h"
#include "engine/repair/plan_repair.h"
#include "engine/repair/plan_scrub.h"
#include "engine/repair/retry_book.h"

namespace quarry::engine {

// The repairs of one pool: a disk that does not answer delays no other pool. Thread-safe. One round runs at a
// time; another caller waits.
class RepairLoop {
 public:
  // The arguments must outlive this object.
  RepairLoop(Node& node, Pool& pool, Eraser& eraser, HealthMemory& healths, Scrubs& scrubs)
      : node_(node),
        pool_(pool),
        eraser_(eraser),
        scrubs_(scrubs),
        disks_(node.log, pool.config.name, node.world.clock, node.world.dm, healths, retries_),
        conditions_(node.log, pool.config.name) {}

  const Pool& pool() const { return pool_; }
  // Looks at the pool and executes the steps that are due. `accepted`: ids of volumes that an administrator
  // wants started from the legs that are present. Adds to `report`.
  void Round(RepairCause cause, const std::set<std::string>& accepted, const Call& call,
             RepairReport& report);
  // Before the pool serves: which of its disks the last process knew to be failing.
  void Recall(const lvm::VolumeGroup& group) {
    const MutexLock lock(mutex_);
    disks_.ReadTags(group);
  }
  // Aborts a running copy; it continues after the next start. No call may follow.
  void Stop();

 private:
  struct OneRound {
    RepairCause cause;
    const std::set<std::string>& accepted;
    const Call& call;
    RepairReport& report;
    std::set<std::string> refused = {};      // PV UUIDs: LVM refused in this round to take them back
    std::set<std::string> not_rebuilt = {};  // ids of volumes whose rebuild failed in this round
    std::set<std::string> started = {};      // ids of thin stores that were to be started in this round
  };
  struct Failure;
  static Failure PoolFailure();
  static Failure FailureOf(const RepairStep& step);

  void RepairPool(OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next step: a repair, else the tag of a disk, else a scrub.
  RepairPlan PlanStep(const RepairView& view, OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<RepairStep> PlanTag(const RepairView& view, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NothingToDo(RepairPlan plan, OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Executes a step under the turn, or begins a copy that may take hours. Returns whether this round may
  // execute another step.
  bool RunStep(RepairStep step, const Catalog& catalog, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports the copy once it has ended.
  void CollectCopy(OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status Do(const RepairStep& step, const Catalog& catalog, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(const RepairStep& step, RepairReport& report);
  // Records the result of a step: when it is tried again, and what it means for scrubs.
  void AfterStep(const RepairStep& step, const Status& done, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AfterScrub(const RepairStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Logs a failure and schedules another attempt, later each time.
  void Failed(const Failure& failure, const Error& error, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the step may be tried now. If not, the report says when.
  bool IsDue(const RetryKey& key, OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Notes since when disks are missing, and passes the missing disks to the eraser.
  void NoteDisks(const Catalog& catalog) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Collect what PlanRepair needs, from the group as it is now (observe.h), and write down what is to be
  // remembered. `disks`: as for ObserveVolume.
  // The stores that the kernel does not have, or with which it cannot go on.
  Status LookAtStores(const Catalog& catalog, RepairView& view, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes what quarryd itself keeps open of volumes in the store that are published nowhere.
  Status DropIdleHolds(const Catalog& catalog, const Store& store);
  Result<RepairView> Look(const Catalog& catalog, OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RepairView LookAtDisks(const Catalog& catalog, OneRound& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Result<std::vector<VolumeView>> LookAtVolumes(const Catalog& catalog, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Result<VolumeView> LookAt(const Record& record, const RaidReport& raid, bool disks, OneRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Node& node_;
  Pool& pool_;
  Eraser& eraser_;
  Scrubs& scrubs_;
  Mutex mutex_;
  RetryBook retries_ ABSL_GUARDED_BY(mutex_);
  DiskMemory disks_ ABSL_GUARDED_BY(mutex_);
  ConditionLog conditions_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CopyJob> copy_ ABSL_GUARDED_BY(mutex_);  // nullptr: none is running
};

}  // namespace quarry::engine
