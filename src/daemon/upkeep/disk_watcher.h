// Makes the engine look for disks to claim when a disk is plugged in.
#pragma once

#include <thread>

#include "base/log.h"
#include "daemon/upkeep/look_schedule.h"
#include "daemon/upkeep/node_events.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Owns one thread. Reacts only to disks that arrive: if a disk that was there becomes blank, an administrator
// is working on it.
class DiskWatcher {
 public:
  // `engine` and `log` outlive the watcher. It looks for disks that arrived since the monitor of `events`
  // began to listen.
  DiskWatcher(engine::Engine& engine, NodeEvents events, const Logger& log);
  ~DiskWatcher() = default;  // cancels a search in progress
  DiskWatcher(const DiskWatcher&) = delete;
  DiskWatcher& operator=(const DiskWatcher&) = delete;

 private:
  void Run(const std::stop_token& stop);
  bool Look(const std::stop_token& stop);

  engine::Engine& engine_;
  const Logger& log_;
  NodeEvents events_;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
