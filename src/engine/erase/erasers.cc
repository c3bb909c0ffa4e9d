#include "engine/erase/erasers.h"

#include <thread>
#include <utility>
#include <vector>

namespace quarry::engine {

void Erasers::Start(Pool& pool) {
  auto eraser = std::make_unique<Eraser>(pool, world_, log_, rate_);
  {
    const std::lock_guard lock(mutex_);
    erasers_[&pool].swap(eraser);
  }
  // An earlier one ends here, without the lock: it may wait for its own command.
}

void Erasers::Stop() {
  std::map<const Pool*, std::unique_ptr<Eraser>> all;
  {
    const std::lock_guard lock(mutex_);
    all = std::exchange(erasers_, {});
  }
  std::vector<std::jthread> ends;
  for (auto& [pool, eraser] : all) {
    ends.emplace_back([&eraser] { eraser.reset(); });
  }
}

Eraser* Erasers::Find(const Pool& pool) {
  const std::lock_guard lock(mutex_);
  const auto found = erasers_.find(&pool);
  return found == erasers_.end() ? nullptr : found->second.get();
}

Eraser& Erasers::Of(const Pool& pool) {
  const std::lock_guard lock(mutex_);
  return *erasers_.at(&pool);
}

void Erasers::Wake(const Pool& pool) {
  if (Eraser* const eraser = Find(pool); eraser != nullptr) {
    eraser->Wake();
  }
}

void Erasers::GiveUp(const Pool& pool, const std::set<std::string>& pvs, const std::set<std::string>& away) {
  if (Eraser* const eraser = Find(pool); eraser != nullptr) {
    eraser->GiveUp(pvs, away);
  }
}

std::string Erasers::Stuck(const Pool& pool) {
  Eraser* const eraser = Find(pool);
  return eraser == nullptr ? "" : eraser->Stuck();
}

}  // namespace quarry::engine
