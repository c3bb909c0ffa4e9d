// Deletion's second half. A deleted volume is tagged "erasing" and answered at once; here its extents are
// cleared on the disks, flushed, and only then given back to LVM. All disks are cleared at the same time,
// each by a queue of its own; what is done is removed by one command. Also takes away what an interrupted
// create left. All that is needed to go on after a crash is in the tags, so there is no list to lose: each
// round reads the group and does what is due. Extents that a volume is to be made of are cleared by the same
// queues, before what nobody waits for.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "engine/erase/disk_queue.h"
#include "engine/erase/erase_job.h"
#include "engine/erase/zeroing.h"
#include "engine/model/catalog.h"
#include "engine/world.h"

namespace quarry::engine {

struct Pool;

// Of one pool. One thread, and one for each disk that has had something to be cleared. What is public may be
// called from any.
class Eraser {
 public:
  // `pool`, `world` and `log` outlive it. `rate`: bytes a second that a disk is cleared at, at most; 0: as
  // fast as it goes.
  Eraser(Pool& pool, World world, const Logger& log, Bytes rate);
  // Stops between two pieces of work; what is unfinished is finished after the next start.
  ~Eraser();
  Eraser(const Eraser&) = delete;
  Eraser& operator=(const Eraser&) = delete;

  // There is something to do.
  void Wake();

  // Of the disks that are `away` now, by PV uuid, those that nobody waits for any more. What was deleted and
  // lies there in part is erased where it can be, and goes. One that was given up stays so until it is not
  // away.
  void GiveUp(const std::set<std::string>& pvs, const std::set<std::string>& away);

  // Has extents cleared that somebody waits for.
  void Clear(const std::shared_ptr<EraseJob>& extents);
  // What is being zeroed for volumes that are to be made or to grow.
  Zeroings& zeroings() { return zeroings_; }

  // How long what is being cleared now on the disks of this group will take, at the speed of late. nullopt:
  // it cannot be told yet.
  std::optional<std::chrono::seconds> Expected(const lvm::VolumeGroup& group) const;

  // In words, what is being written for longer than any piece should, and keeps LVM waiting; empty: nothing.
  std::string Stuck() const;

 private:
  // A deleted volume, from when it is first seen until it is gone.
  struct Work {
    std::shared_ptr<EraseJob> erasure;  // nullptr: it could not be begun
    Bytes recorded;                     // of all disks, as its tag has it
    SteadyTime retry_at;
    std::chrono::milliseconds delay{0};  // of the last retry
  };
  void Run(const std::stop_token& stop);
  // Until something is due. False: it is not, it was only time to look at the queues.
  bool WaitForWork(const std::stop_token& stop);
  void TellOfStuck();
  void Round(const std::stop_token& stop);
  // Of what somebody else removed there is nothing more to be done.
  void ForgetGone(const Catalog& catalog);
  // Legs that conversions took out of volumes that were deleted (taken_out.h). True if there are any.
  bool EndTakenOut(const Catalog& catalog, const std::stop_token& stop);
  // Begins, records, or puts off; true if the volume is cleared and may go.
  bool Proceed(const Record& record, const std::stop_token& stop);
  Status Begin(const Record& record, Work& work, const std::stop_token& stop);
  // The disks that are given up, as far as they are missing now. New ones have what waited for them begin at
  // once.
  void TakeGivenUp(const lvm::VolumeGroup& group);
  void PutOff(const Record& record, Work& work, const Error& why);
  void RecordProgress(const Record& record, Work& work, const std::stop_token& stop);
  Status Remove(const std::vector<Record>& records, const std::stop_token& stop);
  // Whether the extents below an erased volume are just those that were cleared, and nobody's but its own,
  // and it was not active meanwhile. If not it is put off, or begun anew.
  bool MayGo(const lvm::Snapshot& now, const lvm::LogicalVolume& lv, const Record& record);
  // The next round is no later than this.
  void NoLaterThan(SteadyTime when);
  DiskQueue& QueueOf(const std::string& device);

  Pool& pool_;
  const World world_;
  const Logger& log_;
  const Bytes rate_;
  Zeroings zeroings_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  bool woken_ = true;                                         // guarded by mutex_
  std::set<std::string> given_up_;                            // guarded by mutex_; as told
  std::set<std::string> lost_;                                // of the thread: of these, what is missing
  SteadyTime next_round_;                                     // of the thread
  std::chrono::milliseconds pool_delay_;                      // of the thread
  std::map<std::string, Work> work_;                          // by LV uuid, of the thread
  std::map<std::string, std::unique_ptr<DiskQueue>> queues_;  // by device, guarded by mutex_
  std::jthread thread_;  // last: everything above exists before it runs, and it ends before its queues
};

}  // namespace quarry::engine
