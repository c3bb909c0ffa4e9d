// Has the engine look after disks and legs whenever the kernel says that something happened.
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

// One thread. What it is at when it ends is cancelled.
class Watcher {
 public:
  // All outlive it. Where there are no events, it looks all the same, every 30 s.
  static Result<std::unique_ptr<Watcher>> Start(engine::Engine& engine, udev::UdevApi& udev,
                                                const Logger& log);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  Watcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> disks, const Logger& log, UniqueFd woken);
  void Run(const std::stop_token& stop);
  // Until something happens, but no longer.
  engine::MendCause Wait(int device_mapper, SteadyTime until);

  engine::Engine& engine_;
  const std::unique_ptr<udev::Monitor> disks_;  // may be nullptr
  const Logger& log_;
  const UniqueFd woken_;  // an eventfd: readable once there is a stop, or work that no event tells of
  LookSchedule looks_;    // since disks came or went
  SteadyTime looked_;     // at the disks, last
  std::jthread thread_;   // last: everything above exists before it runs
};

}  // namespace quarry::daemon
