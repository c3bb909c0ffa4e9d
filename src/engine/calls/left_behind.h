// Inline volumes that outlive the call that was to end them.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>

namespace quarry::engine {

// Inline volumes that were unpublished and could not be deleted: the pool that may have them could not be
// read, or somebody has something on them. They are deleted when that has passed. By handle.
class LeftBehind {
 public:
  void Add(const std::string& handle);
  void Drop(const std::string& handle);
  bool Has(const std::string& handle) const;
  std::set<std::string> All() const;

 private:
  // A caller that makes handles up is not to fill the memory.
  static constexpr size_t kMost = 10'000;

  mutable std::mutex mutex_;
  std::set<std::string> handles_;
};

}  // namespace quarry::engine
