// Clearing bytes of one disk: a piece at a time, volume after volume, no faster than allowed. Nothing else
// clears bytes, so no disk has two that write to it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/log.h"
#include "engine/erase/erase_job.h"
#include "engine/world.h"

namespace quarry::engine {

// One thread. May be called from any.
class DiskQueue {
 public:
  // Whether somebody waits for it: then it goes before what nobody waits for.
  enum class Haste { kNone, kAwaited };

  // `rate`: bytes a second at most; 0: as fast as the disk goes. `tell` is called, on the queue's thread and
  // without a lock, after each volume's part, and each time that kTold more bytes are cleared. `world`, `log`
  // and what `tell` refers to outlive it.
  DiskQueue(World world, const Logger& log, Bytes rate, std::function<void()> tell);
  // Stops after the piece it is at; what is left stays undone.
  ~DiskQueue();
  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  void Add(std::shared_ptr<EraseJob> erasure, size_t part, Haste haste);
  // Asks it to stop, and does not wait for it.
  void Stop();
  // How long what is queued will take, at the speed of late. nullopt: there was none yet.
  std::optional<std::chrono::duration<double>> Expected() const;

  bool IsWriting() const;
  // In words, which piece is being written for longer than any should: its group is held meanwhile. nullopt:
  // none.
  std::optional<std::string> Stuck() const;
  // The same, once for each piece.
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
  // A piece. False: there is none left to be cleared.
  bool ClearNext(const Entry& entry, const std::stop_token& stop);
  // Until the same piece is tried again, longer each time.
  void Pause(const Entry& entry, const Error& why, const std::stop_token& stop);
  Status ClearPiece(const EraseJob& erasure, const EraseAction& piece, const Call& call);
  Bytes MostAtOnce() const;
  void Pace(Bytes cleared, SteadyTime begun, const std::stop_token& stop);
  std::optional<std::string> StuckLocked() const;

  const World world_;
  const Logger& log_;
  const Bytes rate_;
  const std::function<void()> tell_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Entry> entries_;           // guarded by mutex_
  std::optional<Writing> writing_;      // guarded by mutex_
  double speed_ = 0;                    // bytes a second, pauses included; guarded by mutex_
  double write_speed_ = 0;              // of writing alone, of the thread
  Bytes untold_;                        // of the thread
  std::chrono::milliseconds pause_{0};  // the last one since a piece was cleared, of the thread
  bool told_of_zeroes_ = false;         // of the thread
  std::jthread thread_;                 // last: everything above exists before it runs
};

}  // namespace quarry::engine
