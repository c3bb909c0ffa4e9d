// Makes the engine poll the health of the pools' disks, at the start and at intervals.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/log.h"
#include "engine/engine.h"

namespace quarry::daemon {

// The references outlive the thread. `interval` is positive. `tell` is called, from this thread, when a
// disk's health has changed. A stop cancels a round in progress.
std::jthread WatchHealth(engine::Engine& engine, const Logger& log, std::chrono::seconds interval,
                         std::function<void()> tell);

}  // namespace quarry::daemon
