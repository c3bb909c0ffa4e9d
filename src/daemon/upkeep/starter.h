// Gets a pool going in the background, for as long as that takes: while its volume group or a tool is
// missing, Probe says so, and it is served without a restart once that is there.
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
  std::chrono::milliseconds most{10000};  // doubled from `first` up to this
};

class Starter {
 public:
  // Calls `start` on a thread of its own until it succeeds; logs the first failure and every one with other
  // words. `log` outlives the starter. `pool`: for the log.
  Starter(std::function<Status(const Call&)> start, const Logger& log, Backoff backoff = {},
          std::string pool = "");
  // Asks a running start to stop and waits for it.
  ~Starter() = default;
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  // Whether `start` has succeeded.
  bool done() const { return done_; }
  // Whether it has come to an end at all.
  bool tried() const { return tried_; }

 private:
  void Run(const std::stop_token& stop);
  void Report(const Error& error, std::string& reported) const;

  const std::function<Status(const Call&)> start_;
  const Logger& log_;
  const Backoff backoff_;
  const std::string pool_;
  std::atomic<bool> done_ = false;
  std::atomic<bool> tried_ = false;
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::daemon
