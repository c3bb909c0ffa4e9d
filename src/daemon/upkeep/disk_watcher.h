// Makes the engine look for disks to claim when a disk is plugged in.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/unique_fd.h"
#include "daemon/upkeep/look_schedule.h"
#include "engine/engine.h"
#include "udev/udev_api.h"

namespace quarry::daemon {

// Owns one thread. Only arrivals count: if a disk in place becomes blank, an administrator is working on it.
class DiskWatcher {
 public:
  // `engine` and `log` outlive the watcher. It looks for disks that arrived since `monitor` began to listen.
  DiskWatcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> monitor, const Logger& log);
  ~DiskWatcher() = default;  // cancels a search in progress
  DiskWatcher(const DiskWatcher&) = delete;
  DiskWatcher& operator=(const DiskWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop);
  // Returns at the next event, at `until`, or when a stop is requested.
  void Wait(std::optional<SteadyTime> until);
  bool Look(const std::stop_token& stop);

  engine::Engine& engine_;
  std::unique_ptr<udev::Monitor> monitor_;
  const Logger& log_;
  UniqueFd stopped_;     // an eventfd, readable once a stop is requested
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
