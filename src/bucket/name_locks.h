// Locks by name: one operation at a time on a bucket or an account.
#pragma once

#include <condition_variable>
#include <set>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"

namespace quarry::bucket {

// Thread-safe. Whoever holds an account may take a bucket, never the other way round, and takes
// no other name while it holds one: so holders cannot wait for each other in a circle.
class NameLocks {
 public:
  class Guard {
   public:
    Guard(NameLocks& locks, std::set<std::string> names) : locks_(&locks), names_(std::move(names)) {}
    Guard(Guard&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), names_(std::move(other.names_)) {}
    Guard& operator=(Guard&&) = delete;
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      if (locks_ != nullptr) {
        locks_->Free(names_);
      }
    }

   private:
    NameLocks* locks_;
    std::set<std::string> names_;
  };

  // Waits until nobody holds any of the names. kUnavailable: `call` ended before.
  Result<Guard> Lock(std::set<std::string> names, const Call& call) {
    MutexLock lock(mutex_);
    const bool free = WaitUntil(changed_, lock, call,
                                [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !AnyHeld(names); });
    if (!free) {
      return Error(Code::kUnavailable, *names.begin() + ": another operation goes on: try again");
    }
    held_.insert(names.begin(), names.end());
    return Guard(*this, std::move(names));
  }

 private:
  bool AnyHeld(const std::set<std::string>& names) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const std::string& name : names) {
      if (held_.contains(name)) {
        return true;
      }
    }
    return false;
  }
  void Free(const std::set<std::string>& names) {
    {
      const MutexLock lock(mutex_);
      for (const std::string& name : names) {
        held_.erase(name);
      }
    }
    changed_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::bucket
