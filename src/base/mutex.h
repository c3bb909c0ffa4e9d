// A mutex that clang's thread-safety analysis knows. libstdc++'s std::mutex carries no annotations, so clang
// would not see that std::lock_guard locks it.
//
// Abseil's macros annotate the members and functions; other compilers ignore them. absl::Mutex itself would
// not do: its waits know no std::stop_token. tests/unit/house/thread_safety.py runs the analysis.
#pragma once

#include <mutex>

#include <absl/base/thread_annotations.h>

namespace quarry {

// Meets Lockable. A member that it guards has ABSL_GUARDED_BY(mutex_). A function that
// its callers call with the mutex held has ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_).
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // Tells the analysis that this thread holds the mutex, where it cannot see that. Checks nothing.
  void AssumeHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  std::mutex mutex_;
};

// Holds the mutex for the lifetime of this object, except between unlock() and lock(). Belongs to one thread.
//
// std::condition_variable_any waits with it. The predicate of a wait is a lambda that needs the annotation
// itself: [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; }.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) {
      mutex_.unlock();
    }
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

}  // namespace quarry
