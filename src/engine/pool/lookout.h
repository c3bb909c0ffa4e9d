// Reads a pool's group for calls that are not for this pool: a create checks whether a volume with its name
// is there, a list or a metrics scrape needs every pool. The pool's own thread reads, so such a call
// waits a limited time for a disk that does not answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Thread-safe.
class Lookout {
 public:
  using Read = std::function<Result<lvm::Snapshot>(const Call&)>;
  // A reading that Await waits for.
  using Question = uint64_t;

  // `read` is called on one thread, one call at a time.
  explicit Lookout(Read read);
  // Stops a reading that is under way, and waits for its end.
  ~Lookout() = default;
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  // Requests a reading that begins after this call. Does not wait.
  Question Ask();
  // The group at some moment since Ask, or the error of the reading. "The group is missing" may be up to a
  // second old. kUnavailable: the reading takes longer than `patience`. Patience counts from the beginning of
  // the reading that is under way, even an earlier one. So only the first caller waits for a silent disk.
  Result<lvm::Snapshot> Await(Question question, std::chrono::milliseconds patience, const Call& call);
  Result<lvm::Snapshot> Look(std::chrono::milliseconds patience, const Call& call) {
    return Await(Ask(), patience, call);
  }

  // Forgets that the group was missing: another path has just read it.
  void Forget() {
    const MutexLock lock(mutex_);
    missing_until_ = SteadyTime();
  }

  // Since when no reading has succeeded. nullopt: the last one did.
  std::optional<SteadyTime> failing_since() const {
    const MutexLock lock(mutex_);
    return failing_since_;
  }

 private:
  void Run(const std::stop_token& stop);
  Error Silent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDone(Question question) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ >= question; }

  const Read read_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Question wanted_ ABSL_GUARDED_BY(mutex_) = 0;    // the newest reading that was requested
  Question begun_ ABSL_GUARDED_BY(mutex_) = 0;     // the last reading that began
  Question finished_ ABSL_GUARDED_BY(mutex_) = 0;  // the last reading that ended
  SteadyTime began_at_ ABSL_GUARDED_BY(mutex_);
  SteadyTime missing_until_ ABSL_GUARDED_BY(mutex_);  // until then "missing" is answered without a reading
  Result<lvm::Snapshot> outcome_ ABSL_GUARDED_BY(mutex_) = lvm::Snapshot();  // of `finished_`
  std::optional<SteadyTime> failing_since_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::engine
