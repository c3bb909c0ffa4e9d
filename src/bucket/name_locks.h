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
    Guard(NameLocks& locks, std::string name) : locks_(&locks), name_(std::move(name)) {}
    Guard(Guard&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), name_(std::move(other.name_)) {}
    Guard& operator=(Guard&&) = delete;
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      if (locks_ != nullptr) {
        locks_->Free(name_);
      }
    }

   private:
    NameLocks* locks_;
    std::string name_;
  };

  // Waits until nobody holds the name. kUnavailable: `call` ended before.
  Result<Guard> Lock(std::string name, const Call& call) {
    MutexLock lock(mutex_);
    const bool free = WaitUntil(
        changed_, lock, call, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !held_.contains(name); });
    if (!free) {
      return Error(Code::kUnavailable, name + ": another operation goes on: try again");
    }
    held_.insert(name);
    return Guard(*this, std::move(name));
  }

 private:
  void Free(const std::string& name) {
    {
      const MutexLock lock(mutex_);
      held_.erase(name);
    }
    changed_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::bucket
