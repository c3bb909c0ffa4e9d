// Deletion's second half. A deleted volume is tagged "erasing" and answered at once; here its extents are
// cleared on the disks, flushed, and only then given back to LVM. All disks are cleared at the same time,
// each by a queue of its own; what is done is removed by one command. Also takes away what an interrupted
// create left. All that is needed to go on after a crash is in the tags, so there is no list to lose: each
// round reads the groups and does what is due.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "engine/catalog.h"
#include "engine/disk_queue.h"
#include "engine/erasure.h"
#include "engine/world.h"

namespace quarry::engine {

struct Pool;

// One thread, and one for each disk that has had something to be cleared. Wake() and Expected() may be called
// from any.
class Eraser {
 public:
  // `pools` and `world` outlive it. `rate`: bytes a second that a disk is cleared at, at most; 0: as fast as
  // it goes.
  Eraser(std::vector<Pool*> pools, World world, const Logger& log, Bytes rate);
  // Stops between two pieces of work; what is unfinished is finished after the next start.
  ~Eraser();
  Eraser(const Eraser&) = delete;
  Eraser& operator=(const Eraser&) = delete;

  // There is something to do.
  void Wake();

  // How long what is being cleared now on the disks of this group will take, at the speed of late. nullopt:
  // it cannot be told yet.
  std::optional<std::chrono::seconds> Expected(const lvm::VolumeGroup& group) const;

 private:
  // A deleted volume, from when it is first seen until it is gone.
  struct Work {
    const Pool* pool = nullptr;
    std::shared_ptr<Erasure> erasure;  // nullptr: it could not be begun
    std::vector<Bytes> cleared;        // by the last erasure, if that failed
    Bytes recorded;                    // of all disks, as its tag has it
    SteadyTime retry_at;
    std::chrono::milliseconds delay{0};  // of the last retry
  };
  void Run(const std::stop_token& stop);
  void Round(Pool& pool, const std::stop_token& stop);
  // Of what somebody else removed there is nothing more to be done.
  void ForgetGone(const Pool& pool, const Catalog& catalog);
  // Begins, records, or puts off; true if the volume is cleared and may go.
  bool Proceed(Pool& pool, const Record& record, const std::stop_token& stop);
  Status Begin(Pool& pool, const Record& record, Work& work, const std::stop_token& stop);
  void PutOff(Pool& pool, const Record& record, Work& work, const Error& why);
  void RecordProgress(Pool& pool, const Record& record, Work& work, const std::stop_token& stop);
  Status Remove(Pool& pool, const std::vector<Record>& records, const std::stop_token& stop);
  // The next round is no later than this.
  void NoLaterThan(SteadyTime when);
  DiskQueue& QueueOf(const std::string& device);

  const std::vector<Pool*> pools_;
  const World world_;
  const Logger& log_;
  const Bytes rate_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  bool woken_ = true;                                         // guarded by mutex_
  SteadyTime next_round_;                                     // of the thread
  std::chrono::milliseconds pool_delay_;                      // of the thread
  std::map<std::string, Work> work_;                          // by LV uuid, of the thread
  std::map<std::string, std::unique_ptr<DiskQueue>> queues_;  // by device, guarded by mutex_
  std::jthread thread_;  // last: everything above exists before it runs, and it ends before its queues
};

}  // namespace quarry::engine
