#include "engine/calls/left_behind.h"

namespace quarry::engine {

void LeftBehind::Add(const std::string& handle) {
  const MutexLock lock(mutex_);
  if (handles_.size() < kMost) {
    handles_.insert(handle);
  }
}

void LeftBehind::Drop(const std::string& handle) {
  const MutexLock lock(mutex_);
  handles_.erase(handle);
}

bool LeftBehind::Has(const std::string& handle) const {
  const MutexLock lock(mutex_);
  return handles_.contains(handle);
}

std::set<std::string> LeftBehind::All() const {
  const MutexLock lock(mutex_);
  return handles_;
}

}  // namespace quarry::engine
