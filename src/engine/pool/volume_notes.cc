#include "engine/pool/volume_notes.h"

#include <utility>

namespace quarry::engine {

void Holds::Keep(const std::string& id, UniqueFd fd) {
  const MutexLock lock(mutex_);
  fds_.insert_or_assign(id, std::move(fd));
}

void Holds::Drop(const std::string& id) {
  const MutexLock lock(mutex_);
  fds_.erase(id);
}

bool Holds::Has(const std::string& id) const {
  const MutexLock lock(mutex_);
  return fds_.contains(id);
}

void VolumeSet::Add(const std::string& id) {
  const MutexLock lock(mutex_);
  if (ids_.size() < most_) {
    ids_.insert(id);
  }
}

void VolumeSet::Drop(const std::string& id) {
  const MutexLock lock(mutex_);
  ids_.erase(id);
}

bool VolumeSet::Has(const std::string& id) const {
  const MutexLock lock(mutex_);
  return ids_.contains(id);
}

std::set<std::string> VolumeSet::All() const {
  const MutexLock lock(mutex_);
  return ids_;
}

void Doubts::Set(const std::string& id, const std::optional<Doubt>& doubt) {
  const MutexLock lock(mutex_);
  if (doubt.has_value()) {
    words_.insert_or_assign(id, doubt->words);
  } else {
    words_.erase(id);
  }
}

std::optional<std::string> Doubts::Of(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = words_.find(id);
  return found == words_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace quarry::engine
