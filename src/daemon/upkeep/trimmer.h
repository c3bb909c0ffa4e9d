// Runs fstrim by schedule: a round over all mounted volumes at fixed hours of the clock.
#pragma once

#include <chrono>
#include <thread>

#include "base/log.h"
#include "engine/engine.h"

namespace quarry::daemon {

// When the next round is due: at the next multiple of `interval` since 1970. A restart therefore neither
// advances nor delays a round. `interval` is positive. Pure.
std::chrono::system_clock::time_point NextRound(std::chrono::system_clock::time_point now,
                                                std::chrono::hours interval);

// The arguments outlive the thread. `interval` is positive. A stop ends a round in progress after the piece
// of a file system that is being trimmed.
std::jthread TrimBySchedule(engine::Engine& engine, const Clock& clock, const Logger& log,
                            std::chrono::hours interval);

}  // namespace quarry::daemon
