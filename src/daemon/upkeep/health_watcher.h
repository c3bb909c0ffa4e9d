// Makes the engine poll the health of the pools' disks, at the start and at intervals.
#pragma once

#include <chrono>
#include <thread>

#include "base/log.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Owns one thread. The destructor cancels a round in progress.
class HealthWatcher {
 public:
  // The arguments outlive the watcher. `interval` is positive.
  HealthWatcher(engine::Engine& engine, const Logger& log, std::chrono::seconds interval);
  ~HealthWatcher() = default;
  HealthWatcher(const HealthWatcher&) = delete;
  HealthWatcher& operator=(const HealthWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop, std::chrono::seconds interval);
  bool Round(const std::stop_token& stop);  // false: the round has to be repeated

  engine::Engine& engine_;
  const Logger& log_;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
