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

// Owns one thread. Reacts only to disks that arrive: if a disk that was there becomes blank, an administrator
// is working on it.
class DiskWatcher {
 public:
  // `engine` and `log` outlive the watcher. It looks for disks that arrived since `monitor` began to listen.
  DiskWatcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> monitor, const Logger& log);
  ~DiskWatcher() = default;  // cancels a search in progress
  DiskWatcher(const DiskWatcher&) = delete;
  DiskWatcher& operator=(const DiskWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop);
  // Returns at the next event, or when a stop is requested. If `until` is set, also at `until`, and in any
  // case after 60 s.
  void Wait(std::optional<SteadyTime> until);
  bool Look(const std::stop_token& stop);

  engine::Engine& engine_;
  std::unique_ptr<udev::Monitor> monitor_;
  const Logger& log_;
  UniqueFd stopped_;     // an eventfd, readable once a stop is requested
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
