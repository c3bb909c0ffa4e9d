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

void LostInKernel::Set(const std::string& id, bool lost) {
  const MutexLock lock(mutex_);
  if (lost) {
    ids_.insert(id);
  } else {
    ids_.erase(id);
  }
}

bool LostInKernel::Has(const std::string& id) const {
  const MutexLock lock(mutex_);
  return ids_.contains(id);
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
