// The second half of deletion. DeleteVolume tags a volume "erasing" and answers at once. The eraser then
// erases the volume's extents on the disks, flushes them, and only then gives them back to LVM. Each disk has
// its own queue, so all disks are erased at the same time. One command removes the volumes that are done, at
// most kRemovedAtOnce (40). The eraser also removes what an interrupted create left. The tags have everything
// that is needed after a crash, so there is no list to lose: each round reads the group and does the work
// that is due. The same queues zero the extents of new and growing volumes. Zeroing goes first, because a
// caller waits for it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "engine/erase/disk_queue.h"
#include "engine/erase/erase_job.h"
#include "engine/erase/failure_log.h"
#include "engine/erase/free_zeroing.h"
#include "engine/erase/thin_erasure.h"
#include "engine/erase/zeroing.h"
#include "engine/model/catalog.h"
#include "engine/world.h"

namespace quarry::engine {

struct Node;
struct Pool;

// The eraser of one pool. Has one thread between Start() and Stop(), and one for each disk that has had work.
// Public methods may be called from any thread.
class Eraser {
 public:
  // `pool`, `world` and `log` must outlive this object. `rates`: of each disk. If `idle` is not 0, free space
  // of unknown past is zeroed, on one disk at a time (free_zeroing.h). No work begins before Start().
  Eraser(Pool& pool, World world, const Logger& log, DiskQueue::Rates rates);
  ~Eraser() { Stop(); }
  Eraser(const Eraser&) = delete;
  Eraser& operator=(const Eraser&) = delete;

  // Begins to work. Does nothing if that has happened, or after Stop().
  void Start();
  // Stops between two pieces of work. The next quarryd finishes the rest.
  void Stop();

  // Announces work.
  void Wake();

  // `away`: the missing disks, by PV UUID. `pvs`: those of them that are given up. A deleted volume that lies
  // partly on a given-up disk is erased on its other disks and then removed. A disk stays given up until it
  // is no longer missing.
  void GiveUp(const std::set<std::string>& pvs, const std::set<std::string>& away);

  // Queues the zeroing of held extents. Does not wait for it.
  void Clear(const Zeroing& extents, DiskQueue::Haste haste);
  // The extents that are being zeroed for new or growing volumes.
  Zeroings& zeroings() { return zeroings_; }
  FreeZeroing& free_zeroing() { return free_zeroing_; }

  // How long the present work on the disks of this group will take at the recent rate. nullopt: the rate is
  // not known yet.
  std::optional<std::chrono::seconds> Expected(const lvm::VolumeGroup& group) const;

  // A message about the writes that take longer than any piece should, and keep LVM waiting. Empty: none.
  std::string Stuck() const;

 private:
  // The work on a deleted volume, from the round that first finds the volume until the volume is removed.
  struct Work {
    std::shared_ptr<EraseJob> erasure;  // nullptr: not begun yet
    Bytes recorded;                     // bytes done on all disks, as recorded in the volume's tag
    ThinErasure thin = {};              // of a thin volume; `erasure` is its job
    SteadyTime retry_at;
    std::chrono::milliseconds delay{0};  // of the last retry
  };
  void Run(const std::stop_token& stop);
  // Waits until a round is due. False: it is only time to look for stuck writes.
  bool WaitForWork(const std::stop_token& stop);
  void TellOfStuck();
  void Round(const std::stop_token& stop);
  // Deletes ready members of group snapshots that were not finished (IsUnfinished). True if there are any
  // that this process does not make.
  bool EndUnfinished(const Catalog& catalog, const std::stop_token& stop);
  // The same for one. Takes the turn, and reads the group again under it.
  Status EndMember(const Record& record, const Call& limited);
  // Forgets the work on volumes that another process removed.
  void ForgetGone(const Catalog& catalog);
  // Tags legs that conversions took out of deleted volumes (model/taken_out.h). True if there are any.
  bool EndTakenOut(const Catalog& catalog, const std::stop_token& stop);
  // The same for one deleted volume. Takes the turn, and reads the group again under it.
  Status TagTakenOut(const Record& record, const Call& limited);
  // Begins the work, records its progress, or puts it off. True if the volume is erased and may be removed.
  bool Proceed(const Record& record, const std::stop_token& stop);
  // Separates the store of a copy that has ended from its volume (plan/plan_cow.h). Returns the group as it
  // is afterwards. The caller has the turn.
  Result<lvm::Snapshot> EndKeeping(const Record& store, const Call& limited);
  Status Begin(const Record& record, Work& work, const std::stop_token& stop);
  // Updates `lost_`: the given-up disks that are missing now. If a disk was newly given up, every postponed
  // volume is tried at once.
  void TakeGivenUp(const lvm::VolumeGroup& group);
  void PutOff(const Record& record, Work& work, const Error& why);
  void RecordProgress(const Record& record, Work& work, const std::stop_token& stop);
  // The same for a thin volume.
  Status BeginThin(const Record& current, Work& work, const Call& limited);
  bool MayThinGo(const Record& current, const Call& limited);
  // Whether it is erased on the data device of its store, because it shares chunks or once did.
  bool SharesChunks(const Record& record) const;
  // Whether lvremove would remove the volume alone. Notes if not, and tries again later.
  bool RemovesAlone(const lvm::VolumeGroup& group, const Record& record);
  // Returns whether a command removed any of them.
  Result<bool> Remove(const std::vector<Record>& records, const std::stop_token& stop);
  // Whether an erased volume still has exactly the erased extents and shares them with no other volume. Also
  // notices an activation after the last piece, but only of RAID volumes with `erase=zero`, by their
  // superblocks. If the answer is no, the volume is put off, or erased again from the beginning.
  bool MayGo(const lvm::Snapshot& now, const lvm::LogicalVolume& lv, const Record& record,
             const Call& limited);
  // Goes on with zeroing free space, if there is no other work.
  void ZeroFree(const Catalog& catalog, const std::stop_token& stop);
  // Makes the next round begin at `when` at the latest.
  void NoLaterThan(SteadyTime when) { next_round_ = std::min(next_round_, when); }
  DiskQueue& QueueOf(const std::string& device);
  void NudgeQueues();

  Pool& pool_;
  const World world_;
  const Logger& log_;
  const DiskQueue::Rates rates_;
  Zeroings zeroings_;
  FreeZeroing free_zeroing_;
  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = true;
  std::set<std::string> given_up_ ABSL_GUARDED_BY(mutex_);  // until the disk is back
  std::set<std::string> lost_;                              // thread only; given up and missing now
  SteadyTime next_round_;                                   // thread only
  std::chrono::milliseconds pool_delay_;                    // thread only
  std::map<std::string, Work> work_;                        // by LV UUID, thread only
  // Thread only, as all FailureLogs are.
  FailureLog unread_;       // groups that cannot be read
  FailureLog unerased_;     // deleted volumes, by name
  FailureLog unremoved_;    // the command that removes erased and unfinished volumes
  FailureLog unremovable_;  // volumes that lvremove would remove only together with others, by name
  FailureLog untagged_;     // volumes with legs that a conversion left, by name
  FailureLog unended_;      // members of group snapshots that were not finished, by name
  FailureLog unreturned_;   // logical volumes that hold zeroed extents, by name
  FailureLog unzeroed_;     // free space of unknown past
  std::map<std::string, std::unique_ptr<DiskQueue>> queues_ ABSL_GUARDED_BY(mutex_);  // by device
  Mutex life_mutex_;  // held by Start() and Stop()
  bool stopped_ ABSL_GUARDED_BY(life_mutex_) = false;
  std::jthread thread_ ABSL_GUARDED_BY(life_mutex_);  // last: it ends before its queues
};

// The erasers of the node: one for each pool. Thread-safe.
class Erasers {
 public:
  // `node` must outlive this object. No eraser works yet.
  explicit Erasers(Node& node);

  // Stops all erasers at the same time, since each waits for its own LVM command. The next start gives back
  // the extents that are being zeroed for new volumes.
  void Stop();
  // The eraser of a pool of the node. It exists, at work or not, as long as this object.
  Eraser& Of(const Pool& pool) { return erasers_.at(&pool); }

 private:
  std::map<const Pool*, Eraser> erasers_;  // has every pool of the node, and never changes
};

}  // namespace quarry::engine
