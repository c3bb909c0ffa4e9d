// Makes the engine look for disks that may join a pool when a disk is plugged in.
#pragma once

#include <thread>

#include "base/log.h"
#include "daemon/upkeep/node_events.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Reacts only to disks that arrive: if a disk that was there becomes blank, an administrator is working on
// it. It looks for disks that arrived since the monitor of `events` began to listen. `engine` and `log`
// outlive the thread. A stop cancels a search in progress.
std::jthread WatchDisks(engine::Engine& engine, NodeEvents events, const Logger& log);

}  // namespace quarry::daemon
