// Makes the engine check disks and legs whenever the kernel reports an event.
#pragma once

#include <memory>
#include <thread>

#include "base/log.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/upkeep/look_schedule.h"
#include "engine/engine.h"
#include "udev/udev_api.h"

namespace quarry::daemon {

// Owns one thread. The destructor cancels a round in progress.
class Watcher {
 public:
  // The arguments outlive the watcher. Without events it still checks every 30 s.
  static Result<std::unique_ptr<Watcher>> Start(engine::Engine& engine, udev::UdevApi& udev,
                                                const Logger& log);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  Watcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> disks, const Logger& log, UniqueFd woken);
  void Run(const std::stop_token& stop);
  // Returns at the next event, on a stop, when the engine reports work (Upkeep::OnWork), or at `until`; after
  // 30 s in any case.
  engine::RepairCause Wait(int device_mapper, SteadyTime until);

  engine::Engine& engine_;
  const std::unique_ptr<udev::Monitor> disks_;  // may be nullptr
  const Logger& log_;
  const UniqueFd
      woken_;  // an eventfd, readable once a stop is requested, or when there is work that causes no event
  LookSchedule looks_;   // the looks due after disks arrived or left
  SteadyTime looked_;    // time of the last look at the disks
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
