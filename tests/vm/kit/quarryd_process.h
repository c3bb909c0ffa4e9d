// A quarryd process for a test: started, waited for until it is ready, killed, stopped.
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

// The destructor kills the process with SIGKILL. Used by one thread.
class QuarrydProcess {
 public:
  // Returns when the process runs, which is before it serves. kNotFound: no such program.
  static Result<std::unique_ptr<QuarrydProcess>> Start(const QuarrydOptions& options);
  ~QuarrydProcess();
  QuarrydProcess(const QuarrydProcess&) = delete;
  QuarrydProcess& operator=(const QuarrydProcess&) = delete;

  // Calls Probe until it reports "ready", with a `pause` between calls, since each Probe costs a starting
  // quarryd some work. kUnavailable with the last answer after `limit`, or at once if the process has ended.
  Status WaitReady(std::chrono::seconds limit = std::chrono::seconds(60),
                   std::chrono::milliseconds pause = std::chrono::milliseconds(100));

  // SIGKILL: no destructor and no handler runs. Returns when the process has ended.
  void Kill();
  // Sends SIGTERM and waits. Returns the exit status, or -1 if the process had to be killed after `limit`.
  int Stop(std::chrono::seconds limit = std::chrono::seconds(60));
  void Signal(int number) const;
  // The exit status if the process ends by itself within `limit`; -1 if by a signal. nullopt: it still runs.
  std::optional<int> WaitExit(std::chrono::seconds limit);
  bool Running();
  // Lets the process outlive this object. Returns its pid.
  [[nodiscard]] pid_t Release();

  pid_t pid() const { return pid_; }
  const QuarrydOptions& options() const { return options_; }
  // What the process has written since it was started.
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
