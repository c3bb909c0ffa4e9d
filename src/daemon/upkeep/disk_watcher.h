// Has the engine look for disks to claim when one is plugged in.
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

// One thread. Only arrivals count: a disk that becomes blank in its place is in somebody's hands.
class DiskWatcher {
 public:
  // `engine` and `log` outlive it. Disks that came since `monitor` listens are looked for.
  DiskWatcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> monitor, const Logger& log);
  ~DiskWatcher() = default;  // a look that is under way is called off
  DiskWatcher(const DiskWatcher&) = delete;
  DiskWatcher& operator=(const DiskWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop);
  // Until there is news, the time has come, or `stop`.
  void Wait(std::optional<SteadyTime> until);
  bool Look(const std::stop_token& stop);

  engine::Engine& engine_;
  std::unique_ptr<udev::Monitor> monitor_;
  const Logger& log_;
  UniqueFd stopped_;     // an eventfd: readable once there is a stop
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
