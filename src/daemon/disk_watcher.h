// Has the engine look for disks to claim when one is plugged in.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/unique_fd.h"
#include "engine/engine.h"
#include "udev/udev_api.h"

namespace quarry::daemon {

// When to look after a disk has come: at once, and a few times more, because udevd makes its links only then
// and others may hold the disk for a moment. Pure.
class LookSchedule {
 public:
  void DiskCame(SteadyTime now);
  // After a look that was due. One that failed is repeated until one does not.
  void Looked(SteadyTime now, bool failed);
  std::optional<SteadyTime> due() const { return due_; }  // nullopt: nothing to look for

 private:
  std::optional<SteadyTime> due_;
  size_t looks_ = 0;  // since the last disk came
};

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
