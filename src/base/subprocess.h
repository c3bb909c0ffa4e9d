// Runs other programs: argv in, exit status and captured output out. Honors deadline and stop request.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry {

using Environment = std::vector<std::pair<std::string, std::string>>;

// The signals with which people and service managers end a process.
inline constexpr std::array kEndingSignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

struct Command {
  std::vector<std::string> argv;               // argv[0] is an absolute path; never a shell line
  Environment env;                             // the whole environment of the child
  std::string input;                           // standard input; empty: /dev/null
  size_t output_limit = 64 * 1024 * 1024;      // per stream; excess is dropped and flagged
  std::chrono::milliseconds kill_grace{2000};  // from TERM to KILL after deadline or stop request
  std::vector<int> keep_fds;                   // descriptors the child inherits under the same number
  // Becomes the child's standard input. A lock that belongs to this open file (flock) therefore lasts until
  // the child ends, even if this process dies first. Only without `input`. -1: none.
  int hold_fd = -1;
  // The child gets TERM as soon as this process is dead. Only for commands that may be ended at any moment,
  // because they only wait for something. Without keep_fds.
  bool ends_with_us = false;
  // kEndingSignals are blocked in the child. So after a deadline or a stop request it has kill_grace
  // to end by itself, and is then killed. For a command that must not be broken off. Not with ends_with_us.
  bool unbroken = false;
};

struct Finished {
  int exit_status = -1;  // -1 if a signal ended it
  int signal = 0;        // 0 if it exited
  bool output_truncated = false;
  std::string out;
  std::string err;
  std::chrono::milliseconds elapsed{0};

  bool ok() const { return exit_status == 0; }
};

// Pid and argv[0] of each.
using StuckChildren = std::vector<std::pair<int, std::string>>;

// The seam to processes. Thread-safe. A child runs in its own process group, with default signal
// dispositions, an empty signal mask (except `unbroken`), and no descriptors except 0, 1, 2 and keep_fds.
class Subprocess {
 public:
  virtual ~Subprocess() = default;

  // Runs a command to its end. A non-zero exit is not an error of this call: check Finished. kNotFound: no
  // such program. kTimeout / kCancelled: the deadline passed or a stop was requested; the process group got
  // TERM and, if the child did not end within kill_grace, KILL. If the child survived KILL (uninterruptible
  // sleep), the message says so with the pid; the pid stays unreaped and Stuck() counts it.
  virtual Result<Finished> Run(const Command& command, const Call& call) = 0;

  // Children that survived SIGKILL and still exist.
  virtual StuckChildren Stuck() = 0;
};

// Starts a program with posix_spawn(3), in its own process group, with default signal dispositions and an
// empty signal mask (`unbroken`: as in Command). files[i] becomes descriptor i; a descriptor in `keep` keeps
// its number. The program inherits no other descriptor. `program` is a path. The caller reaps the process.
Result<pid_t> Spawn(const std::string& program, std::vector<std::string> argv, const Environment& env,
                    std::span<const int> files, std::span<const int> keep = {}, bool unbroken = false);

// Uses posix_spawn (fork for children with ends_with_us), pidfd and poll. Each object counts the stuck
// children of its own commands.
class SpawnSubprocess final : public Subprocess {
 public:
  SpawnSubprocess();
  Result<Finished> Run(const Command& command, const Call& call) override;
  StuckChildren Stuck() override;

 private:
  class Children;
  std::shared_ptr<Children> stuck_;
};

// The last `limit` bytes of a tool's output, trimmed, newlines folded to "; ", for error messages.
std::string ToolWords(std::string_view text, size_t limit = 600);

}  // namespace quarry
