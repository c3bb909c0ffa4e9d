// Inline volumes that exist longer than the call that was to delete them.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "base/mutex.h"

namespace quarry::engine {

// Inline volumes, by handle, that were unpublished but could not be deleted: their pool could not be read, or
// an administrator has built something on them, such as a snapshot. They are deleted once the obstacle is
// gone.
class LeftBehind {
 public:
  void Add(const std::string& handle);
  void Drop(const std::string& handle);
  bool Has(const std::string& handle) const;
  std::set<std::string> All() const;

  // Held while they are deleted: one round does so at a time.
  Mutex deleting;

 private:
  // Limits the memory that a caller with invented handles can use.
  static constexpr size_t kMost = 10'000;

  mutable Mutex mutex_;
  std::set<std::string> handles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
