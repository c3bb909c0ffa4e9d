// Which steps failed or were tried, how often, and when each may be tried again. It remembers only; the
// repair loop decides what counts as a failure.
#pragma once

#include <chrono>
#include <compare>  // IWYU pragma: keep: for <=>
#include <map>
#include <optional>
#include <string>

#include "base/call.h"

namespace quarry::engine {

// Steps with different keys do not delay each other.
struct RetryKey {
  enum class Step {
    kRepair,   // any step that has no kind of its own
    kRebuild,  // of a volume's legs
    kStartStore,
    kEvacuate,
    kReplaceLeg,  // on a disk that is present and failing
    kLimit,       // sets the rebuild rate
    kTakeBack,    // a returned disk is taken back into its group
    kRefresh,     // the legs of a volume are taken back
    kScrub,
    kTagDisk,  // the tag that says that legs on a disk fail
  };
  Step step;
  std::string of = {};  // kTakeBack, kTagDisk: PV UUID; kRebuild, kRefresh, kScrub, kStartStore: id; else
                        // empty, for the whole pool
  auto operator<=>(const RetryKey&) const = default;
};

// The longest delay between two attempts.
inline constexpr std::chrono::milliseconds kLongestRetry{1'800'000};

// Not thread-safe: the repair loop guards it. Its memory need not survive a restart: a step that still fails
// is put off again.
class RetryBook {
 public:
  // The time until the step may be tried again, rounded up. nullopt: it is due now.
  std::optional<std::chrono::milliseconds> Wait(const RetryKey& key, SteadyTime now) const;
  // Records an attempt. The first attempt puts the step off by `first`, which is at most kLongestRetry. Each
  // further attempt doubles the delay.
  void PutOff(const RetryKey& key, std::chrono::milliseconds first, SteadyTime now);
  // How often the step was put off since it was last forgotten.
  int Attempts(const RetryKey& key) const;
  // The step is due, and its next delay is the first one again.
  void Forget(const RetryKey& key) { entries_.erase(key); }

 private:
  struct Entry {
    SteadyTime next;
    std::chrono::milliseconds delay{0};
    int attempts = 0;
  };
  std::map<RetryKey, Entry> entries_;
};

}  // namespace quarry::engine
