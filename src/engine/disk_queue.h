// Clearing bytes of one disk: a piece at a time, volume after volume, no faster than allowed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/erasure.h"
#include "engine/world.h"

namespace quarry::engine {

// One thread. May be called from any.
class DiskQueue {
 public:
  // `rate`: bytes a second at most; 0: as fast as the disk goes. `tell` is called, on the queue's thread and
  // without a lock, after each volume's part, and each time that kTold more bytes are cleared. `world` and
  // what `tell` refers to outlive it.
  DiskQueue(World world, Bytes rate, std::function<void()> tell);
  // Stops after the piece it is at; what is left stays undone.
  ~DiskQueue();
  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  void Add(std::shared_ptr<Erasure> erasure, size_t part);
  // Asks it to stop, and does not wait for it.
  void Stop();
  // How long what is queued will take, at the speed of late. nullopt: there was none yet.
  std::optional<std::chrono::duration<double>> Expected() const;

  static constexpr Bytes kTold{16 * kGiB.value};

 private:
  struct Entry {
    std::shared_ptr<Erasure> erasure;
    size_t part;
  };
  void Run(const std::stop_token& stop);
  void Clear(const Entry& entry, const std::stop_token& stop);
  void Pace(Bytes cleared, SteadyTime begun, const std::stop_token& stop);

  const World world_;
  const Bytes rate_;
  const std::function<void()> tell_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Entry> entries_;  // guarded by mutex_; the first is under way
  double speed_ = 0;           // bytes a second, guarded by mutex_
  Bytes untold_;               // of the thread
  std::jthread thread_;        // last: everything above exists before it runs
};

}  // namespace quarry::engine
