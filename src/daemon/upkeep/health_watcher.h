// Makes the engine poll the health of the pools' disks, at the start and at intervals.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/log.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Owns one thread. The destructor cancels a round in progress.
class HealthWatcher {
 public:
  // The references outlive the watcher. `interval` is positive. `changed` is called, from the watcher's
  // thread, when a disk's health has changed.
  HealthWatcher(engine::Engine& engine, const Logger& log, std::chrono::seconds interval,
                std::function<void()> changed);
  ~HealthWatcher() = default;
  HealthWatcher(const HealthWatcher&) = delete;
  HealthWatcher& operator=(const HealthWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop, std::chrono::seconds interval);
  bool Round(const std::stop_token& stop);  // false: the round has to be repeated

  engine::Engine& engine_;
  const Logger& log_;
  const std::function<void()> changed_;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
