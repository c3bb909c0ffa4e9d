// Looks at a pool's group for those who did not ask for that pool: a volume of the same name may be there, a
// list or a scrape wants every pool. The pool's own thread reads, so that none of them waits for a disk that
// does not answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/call.h"
#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Thread-safe.
class Lookout {
 public:
  using Read = std::function<Result<lvm::Snapshot>(const Call&)>;
  // What Await waits for.
  using Question = uint64_t;

  // `read` is called on one thread, once at a time.
  explicit Lookout(Read read);
  // Has a reading that is under way stop, and waits for it.
  ~Lookout() = default;
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  // Has the group read from now on. Does not wait.
  Question Ask();
  // The group as it was at some moment since Ask. The error of the reading; that the group is missing also if
  // it was so less than a second ago. kUnavailable: it takes longer than `patience`, counted from when the
  // reading began, so that of many who ask only the first waits.
  Result<lvm::Snapshot> Await(Question question, std::chrono::milliseconds patience, const Call& call);
  Result<lvm::Snapshot> Look(std::chrono::milliseconds patience, const Call& call) {
    return Await(Ask(), patience, call);
  }

  // The group was read by somebody else: it is not missing any more.
  void Forget();

  // Since when nobody has got an answer; nullopt: the last who asked has got one.
  std::optional<SteadyTime> failing_since() const;

 private:
  void Run(const std::stop_token& stop);
  Error Silent();

  const Read read_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_:
  Question wanted_ = 0;    // the newest that somebody has asked for
  Question begun_ = 0;     // the last reading that began
  Question finished_ = 0;  // the last that ended
  SteadyTime began_at_;
  SteadyTime missing_until_;                         // as far as others are concerned
  Result<lvm::Snapshot> outcome_ = lvm::Snapshot();  // of `finished_`
  std::optional<SteadyTime> failing_since_;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::engine
