// Makes the engine check the disks and legs of a pool whenever the kernel reports an event.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/result.h"
#include "daemon/upkeep/look_schedule.h"
#include "daemon/upkeep/node_events.h"
#include "engine/engine.h"
#include "udev/udev_api.h"

namespace quarry::daemon {

// Owns one thread. Each pool has a watcher of its own, so that no pool waits for another one's disks. The
// destructor cancels a round in progress.
class Watcher {
 public:
  // The references outlive the watcher. Without events it still checks every 30 s. `looked` is called after
  // each round, from the watcher's thread.
  static Result<std::unique_ptr<Watcher>> Start(engine::Engine& engine, udev::UdevApi& udev,
                                                const Logger& log, std::string pool,
                                                std::function<void()> looked = {});
  ~Watcher() = default;
  // Cancels a round in progress and begins no other. The destructor waits for the end.
  void RequestStop() { thread_.request_stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Begins a round for work that causes no event. May be called from any thread.
  void Wake() const { events_.Wake(); }

 private:
  Watcher(engine::Engine& engine, NodeEvents events, const Logger& log, std::string pool,
          std::function<void()> looked);
  void Run(const std::stop_token& stop);
  // What the next round is for.
  engine::RepairCause CauseOf(const NodeEvents::Happened& happened);

  engine::Engine& engine_;
  const Logger& log_;
  const std::string pool_;
  const std::function<void()> looked_at_;  // may be empty
  NodeEvents events_;
  LookSchedule looks_;   // the looks due after disks arrived or left
  SteadyTime looked_;    // time of the last look at the disks
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
