// Where calls wait or are refused. The node has a gate, which counts the calls in flight. Each pool has one
// too, where calls only wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"

namespace quarry::engine {

// A call that arrives during a pool's first start waits for that start. A call that arrives after a failed
// start, or during the stop, is refused. Thread-safe.
class Gate {
  struct Leave {
    void operator()(Gate* gate) const;
  };

 public:
  // A call that is inside. Its destructor lets the call leave; the gate must outlive it.
  using Pass = std::unique_ptr<Gate, Leave>;
  enum class Phase { kStarting, kOpen, kClosed };

  // Waits while the first start runs, at most until the call's deadline and at most kLongestWait.
  // kUnavailable, with the reason, while closed.
  Result<Pass> Enter(const Call& call);
  // As Enter, but does not count the call, and waits at most until kLongestStart after the gate's creation.
  Status Wait(const Call& call);
  // For calls that can do without this pool: waits only during the first seconds of the start.
  Status WaitBriefly(const Call& call);
  void Open() {
    const MutexLock lock(mutex_);
    phase_ = Phase::kOpen;
    changed_.notify_all();
  }
  void Close(std::string reason) {
    const MutexLock lock(mutex_);
    phase_ = Phase::kClosed;
    reason_ = std::move(reason);
    changed_.notify_all();
  }
  // kTimeout if calls are still in flight when `call` ends.
  Status Drain(const Call& call);
  Phase phase() const {
    const MutexLock lock(mutex_);
    return phase_;
  }
  bool is_open() const { return phase() == Phase::kOpen; }
  std::string reason() const {
    const MutexLock lock(mutex_);
    return reason_;
  }
  // Whether the first start has been running for more than kLongestStart.
  bool is_late() const {
    const MutexLock lock(mutex_);
    return phase_ == Phase::kStarting && std::chrono::steady_clock::now() - made_ > kLongestStart;
  }

 private:
  // After this long a call gets the reason as an error, before most callers give up (after 10 s to 2 min).
  static constexpr std::chrono::seconds kLongestWait{30};
  // A start that takes longer than this may be waiting for something that never comes.
  static constexpr std::chrono::seconds kLongestStart{60};
  static constexpr std::chrono::seconds kBriefly{5};

  Status WaitLocked(MutexLock& lock, const Call& call, SteadyTime until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kStarting;
  std::string reason_ ABSL_GUARDED_BY(mutex_) = "starting: the volume group has not been read yet";
  size_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
  const SteadyTime made_ = std::chrono::steady_clock::now();
};

}  // namespace quarry::engine
