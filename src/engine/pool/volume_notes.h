// What is remembered of single volumes, by id. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/unique_fd.h"
#include "engine/raid/stopped_array.h"

namespace quarry::engine {

// Descriptors that keep published raw devices from going away (a bind-mounted node is no open). By volume id.
class Holds {
 public:
  void Keep(const std::string& id, UniqueFd fd);
  void Drop(const std::string& id);
  bool Has(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, UniqueFd> fds_;
};

// Volumes that lie on a disk that the kernel no longer has, as the mender last saw them. By volume id.
class LostInKernel {
 public:
  void Set(const std::string& id, bool lost);
  bool Has(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> ids_;
};

// Volumes that are not started by themselves (stopped_array.h), as they were last looked at: why. By volume
// id.
class Doubts {
 public:
  void Set(const std::string& id, const std::optional<Doubt>& doubt);
  std::optional<std::string> Of(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> words_;
};

}  // namespace quarry::engine
