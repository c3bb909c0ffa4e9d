// Has the engine ask the pools' disks how they are, at the start and at intervals.
#pragma once

#include <chrono>
#include <thread>

#include "base/log.h"
#include "engine/engine.h"

namespace quarry::daemon {

// One thread. A round that is under way at the end is called off.
class HealthWatcher {
 public:
  // All outlive it. `interval` is positive.
  HealthWatcher(engine::Engine& engine, const Logger& log, std::chrono::seconds interval);
  ~HealthWatcher() = default;
  HealthWatcher(const HealthWatcher&) = delete;
  HealthWatcher& operator=(const HealthWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop, std::chrono::seconds interval);
  bool Round(const std::stop_token& stop);  // false: it has to be repeated

  engine::Engine& engine_;
  const Logger& log_;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
