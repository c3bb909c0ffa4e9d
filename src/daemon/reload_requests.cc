#include "daemon/reload_requests.h"

namespace quarry::daemon {

Result<csi::Reloaded> ReloadRequests::Ask(const Call& call) {
  uint64_t ticket = 0;
  {
    const MutexLock lock(mutex_);
    ticket = ++asked_;
  }
  wake_();
  MutexLock lock(mutex_);
  (void)WaitUntil(changed_, lock, call,
                  [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || done_ >= ticket; });
  // A later reading may have ended since. Its outcome is as good, because the files were read even later.
  if (done_ >= ticket) {
    return *outcome_;
  }
  if (closed_) {
    return Error(Code::kUnavailable, "quarryd is stopping");
  }
  QUARRY_TRY(call.Check("waiting until the settings are read"));
  return Error(Code::kTimeout, "the settings were not read in time");
}

bool ReloadRequests::pending() const {
  const MutexLock lock(mutex_);
  return asked_ > begun_;
}

void ReloadRequests::Begin() {
  const MutexLock lock(mutex_);
  begun_ = asked_;
}

void ReloadRequests::End(const Result<csi::Reloaded>& outcome) {
  const MutexLock lock(mutex_);
  outcome_ = outcome;
  done_ = begun_;
  changed_.notify_all();
}

void ReloadRequests::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace quarry::daemon
