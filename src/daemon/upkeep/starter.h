// Starts a pool in the background, and repeats the start until it succeeds. While the pool's volume group or
// a tool is missing, Probe reports it. When it appears, the next attempt can succeed: quarryd need not be
// restarted.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/call.h"
#include "base/log.h"
#include "base/result.h"

namespace quarry::daemon {

struct Backoff {
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds most{10000};  // the pause doubles from `first` up to this
};

// What the log says. Empty: nothing.
struct StarterWords {
  std::string done = "ready";
  std::string failed = "not ready yet, trying again";
};

class Starter {
 public:
  // Calls `start` on a thread of its own until `start` succeeds. Logs the first failure, and each later
  // failure whose text differs from the one before. `log` outlives the starter. `pool` is for the log.
  Starter(std::function<Status(const Call&)> start, const Logger& log, Backoff backoff = {},
          std::string pool = "", StarterWords words = {});
  // Asks a running start to stop, and waits for it.
  ~Starter() = default;
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  // Asks a running start to stop, without waiting for it.
  void RequestStop() { thread_.request_stop(); }

  // Whether `start` has succeeded.
  bool done() const { return done_; }
  // Whether `start` has returned at least once, with success or failure.
  bool tried() const { return tried_; }

 private:
  void Run(const std::stop_token& stop);

  const std::function<Status(const Call&)> start_;
  const Logger& log_;
  const Backoff backoff_;
  const std::string pool_;
  const StarterWords words_;
  std::atomic<bool> done_ = false;
  std::atomic<bool> tried_ = false;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
