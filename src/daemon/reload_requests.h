// `quarryctl reload`: a call asks, the thread of the signals reads the settings, the call waits for the
// outcome.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "csi/reload.h"

namespace quarry::daemon {

// Thread-safe.
class ReloadRequests {
 public:
  // `wake` makes the other thread call Begin(). It is called with no mutex held, by any thread.
  explicit ReloadRequests(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Waits for a reading of the settings that begins after this call. The error of that reading; kUnavailable
  // after Close(); kTimeout or kCancelled if the call ends first: the settings are read all the same.
  Result<csi::Reloaded> Ask(const Call& call);

  // Whether a call has asked since the last Begin().
  bool pending() const;
  // A reading begins, and answers every call that has asked until now. End() gives them its outcome.
  void Begin();
  void End(const Result<csi::Reloaded>& outcome);
  // No reading will begin any more.
  void Close();

 private:
  const std::function<void()> wake_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;  // number of calls
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) =
      0;  // of those: answered by the reading that runs, or by an earlier one
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;  // of those: answered
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Result<csi::Reloaded>> outcome_ ABSL_GUARDED_BY(mutex_);  // of the last reading
};

}  // namespace quarry::daemon
