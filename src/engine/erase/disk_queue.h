// Erases and zeroes bytes of one disk: one piece at a time, one volume after another, no faster than allowed.
// No other code erases below device-mapper, so no disk is erased by two writers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "engine/erase/erase_job.h"
#include "engine/world.h"

namespace quarry::engine {

// Has one thread. May be called from any thread.
class DiskQueue {
 public:
  // The order in which work is done: first what a caller waits for, last what is done while there is no other
  // work.
  enum class Haste { kAwaited, kNone, kIdle };
  // Bytes a second at most; 0: as fast as possible. `idle` limits the work with Haste::kIdle beyond `all`.
  struct Rates {
    Bytes all, idle;
    Bytes Of(Haste haste) const {
      const bool lower = haste == Haste::kIdle && idle.value != 0 && (all.value == 0 || idle < all);
      return lower ? idle : all;
    }
  };

  // `tell` is called, on the queue's thread and without a lock, when a part of a job has ended, and each time
  // kTold more bytes are done. `world`, `log`, and everything that `tell` refers to, must outlive this
  // object.
  DiskQueue(World world, const Logger& log, Rates rates, std::function<void()> tell);
  // Stops after the present piece. The rest stays undone. (jthread asks to stop, then joins.)
  ~DiskQueue() = default;
  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  void Add(std::shared_ptr<EraseJob> erasure, size_t part, Haste haste);
  // Looks at the jobs again: one of them was failed by somebody else, and is left at once.
  void Nudge();
  // Requests a stop, and does not wait for it.
  void Stop() { thread_.request_stop(); }
  // How long the queued work, without idle work, will take at the recent rate. nullopt: the rate is not known
  // yet.
  std::optional<std::chrono::duration<double>> Expected() const;

  bool IsWriting() const;
  // A message about a piece whose write takes longer than any piece should. Meanwhile the piece's group is
  // held. nullopt: no write is stuck.
  std::optional<std::string> Stuck() const;
  // The same, but only once for each piece.
  std::optional<std::string> NewlyStuck();

  static constexpr Bytes kTold{16 * kGiB.value};

 private:
  struct Entry {
    std::shared_ptr<EraseJob> erasure;
    size_t part;
    Haste haste;
  };
  struct Writing {
    std::string group;
    dm::EraseRange range;
    SteadyTime since;
    bool told = false;
  };
  void Run(const std::stop_token& stop);
  // Writes one piece. False: the part has no piece left, or it failed.
  bool ClearNext(const Entry& entry, const std::stop_token& stop);
  // Waits before the same piece is tried again, longer each time.
  void Pause(const Entry& entry, const Error& why, const std::stop_token& stop);
  Status ClearPiece(const EraseJob& erasure, const EraseAction& piece, const Call& call);
  Bytes MostAtOnce(Haste haste) const;
  // Waits so that the piece keeps to its rate. Idle work does not wait when other work arrives.
  void Pace(const Entry& entry, Bytes cleared, SteadyTime begun, const std::stop_token& stop);
  // Somebody may wait for the queue to leave it.
  bool HasFailedJob() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<std::string> StuckLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const World world_;
  const Logger& log_;
  const Rates rates_;
  const std::function<void()> tell_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::optional<Writing> writing_ ABSL_GUARDED_BY(mutex_);
  double speed_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes a second, pauses included
  double write_speed_ = 0;                    // bytes a second, without pauses; used by the thread only
  Bytes untold_;                              // since the last `tell_`; used by the thread only
  std::chrono::milliseconds pause_{0};        // the last pause; 0 after a success; used by the thread only
  bool told_of_zeroes_ = false;               // used by the thread only
  std::jthread thread_;                       // last: everything above exists before it runs
};

}  // namespace quarry::engine
