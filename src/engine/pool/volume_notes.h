// What quarryd remembers in memory about single volumes, by id. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "engine/raid/stopped_array.h"

namespace quarry::engine {

// Open descriptors of published raw devices, by volume id. They keep the devices in use: a bind mount of a
// device node does not open the device.
class Holds {
 public:
  void Keep(const std::string& id, UniqueFd fd);
  void Drop(const std::string& id);
  bool Has(const std::string& id) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, UniqueFd> fds_ ABSL_GUARDED_BY(mutex_);
};

// A set of volumes, by id or handle.
class VolumeSet {
 public:
  // `most`: a full set takes no further volume.
  explicit VolumeSet(size_t most = SIZE_MAX) : most_(most) {}

  void Add(const std::string& id);
  void Drop(const std::string& id);
  bool Has(const std::string& id) const;
  std::set<std::string> All() const;

 private:
  const size_t most_;
  mutable Mutex mutex_;
  std::set<std::string> ids_ ABSL_GUARDED_BY(mutex_);
};

// Why quarryd does not start certain volumes (raid/stopped_array.h), as of the last inspection. By volume id.
class Doubts {
 public:
  void Set(const std::string& id, const std::optional<Doubt>& doubt);
  std::optional<std::string> Of(const std::string& id) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> words_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
