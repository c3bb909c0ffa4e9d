// A quarryd of one's own: started, asked whether it is ready, killed, stopped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quarry::vm {

struct QuarrydOptions {
  std::string program = "quarryd";                             // on PATH, or a path
  std::string socket = "/run/quarry-test/csi.sock";            // its folder is created
  std::vector<std::string> pools = {"main=vg"};                // NAME=VG
  std::vector<std::string> arguments;                          // more flags
  std::vector<std::pair<std::string, std::string>> variables;  // set in its environment
  std::string log = "/run/quarry-test/quarryd.log";            // standard output and error, appended to
};

// The process dies with this object, by SIGKILL. One thread.
class QuarrydProcess {
 public:
  // Returns when it runs, which is before it serves. kNotFound: no such program.
  static Result<std::unique_ptr<QuarrydProcess>> Start(const QuarrydOptions& options);
  ~QuarrydProcess();
  QuarrydProcess(const QuarrydProcess&) = delete;
  QuarrydProcess& operator=(const QuarrydProcess&) = delete;

  // Until Probe says "ready", asked again after each `pause`: Probe is work for the one who is to get ready.
  // kUnavailable with its last answer after `limit`, or at once if the process has ended.
  Status WaitReady(std::chrono::seconds limit = std::chrono::seconds(60),
                   std::chrono::milliseconds pause = std::chrono::milliseconds(100));

  // SIGKILL: no destructor, no handler, nothing runs. Returns when it is gone.
  void Kill();
  // Sends SIGTERM and waits: exit status, or -1 if it had to be killed after `limit`.
  int Stop(std::chrono::seconds limit = std::chrono::seconds(60));
  void Signal(int number) const;
  // The exit status if it ends by itself within `limit`: -1 by a signal. nullopt: it still runs.
  std::optional<int> WaitExit(std::chrono::seconds limit);
  bool Running();
  // Lets go of it: it lives on after this object. Its pid.
  [[nodiscard]] pid_t Release();

  pid_t pid() const { return pid_; }
  const QuarrydOptions& options() const { return options_; }
  // What it has written since it was started.
  std::string Log() const;

 private:
  QuarrydProcess(QuarrydOptions options, pid_t pid, size_t log_start)
      : options_(std::move(options)), pid_(pid), log_start_(log_start) {}

  QuarrydOptions options_;
  pid_t pid_;
  size_t log_start_;
  std::optional<int> exit_status_;
  bool released_ = false;
};

}  // namespace quarry::vm
