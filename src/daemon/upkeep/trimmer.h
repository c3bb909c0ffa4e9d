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

// Owns one thread. The destructor ends a round in progress after its current piece.
class Trimmer {
 public:
  // The arguments outlive the trimmer.
  Trimmer(engine::Engine& engine, const Clock& clock, const Logger& log, std::chrono::hours interval);
  ~Trimmer() = default;
  Trimmer(const Trimmer&) = delete;
  Trimmer& operator=(const Trimmer&) = delete;

 private:
  void Run(const std::stop_token& stop, std::chrono::hours interval);
  void Round(const std::stop_token& stop);

  engine::Engine& engine_;
  const Clock& clock_;
  const Logger& log_;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
