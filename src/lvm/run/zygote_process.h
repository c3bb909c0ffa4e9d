// The LVM zygote's process and its commands, as quarryd sees them through the sockets (zygote_wire.h).
// Internal to ZygoteSubprocess, whose header has the promises.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "lvm/run/zygote_wire.h"

namespace quarry::lvm::zygote {

// Thread-safe.
class Process {
 public:
  // Returns once the zygote is ready for commands. kUnavailable, with the program's words, if it ended
  // instead.
  static Result<std::shared_ptr<Process>> Start(const std::string& program, const Environment& env,
                                                const Call& call);
  // Tells the zygote to end, and reaps it if it ends at once. The zygote first waits for its commands.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const Environment& env() const { return env_; }
  bool IsGone() const;
  // Passes a request with its three or four descriptors. False: the zygote is gone and did not get the
  // request, or it accepts no more requests.
  bool Send(const std::string& request, std::span<const int> fds) const;
  // Commands that the zygote accepted continue, except those that only watch (pvmove). Others are never run.
  void Kill() const;

 private:
  Process(pid_t pid, UniqueFd control, Environment env)
      : pid_(pid), control_(std::move(control)), env_(std::move(env)) {}

  const pid_t pid_;
  UniqueFd control_;
  const Environment env_;
};

// One command from request to end. For one thread at a time.
class Running {
 public:
  // nullptr: the zygote is gone and did not get the request.
  static Result<std::unique_ptr<Running>> Start(std::shared_ptr<Process> zygote, const Command& command);

  // Waits until the command or the call ends. In the latter case returns the call's error; the command
  // continues.
  Status Wait(const Call& call);
  // TERM, then KILL: LVM blocks signals while it holds a group's lock. If the zygote has not accepted the
  // command by then, the zygote itself is killed, so that the command never runs. False: the command survived
  // KILL.
  bool Stop(std::chrono::milliseconds grace);
  // Takes the replies that have arrived, without waiting.
  void Sweep() { Step(std::chrono::milliseconds::zero()); }

  bool ended() const { return ended_; }
  // True if the zygote died before it accepted the request: nothing was run.
  bool WasLost() const { return ended_ && !taken_; }
  int pid() const { return pid_; }  // -1 until known
  const std::string& name() const { return name_; }
  std::chrono::milliseconds Elapsed() const;
  // The command's standard error so far, for messages.
  std::string Words() const;
  // Call after the end. kUnavailable: it is unknown how the command ended.
  Result<Finished> TakeFinished(size_t output_limit);

 private:
  Running(std::shared_ptr<Process> zygote, const Command& command, UniqueFd reply, UniqueFd out,
          UniqueFd err);
  void Step(std::chrono::milliseconds limit);
  void Note(const Message& message);
  void Signal(int signal);

  const std::shared_ptr<Process> zygote_;
  const std::string name_;
  UniqueFd reply_;
  UniqueFd out_;
  UniqueFd err_;
  const SteadyTime started_;
  bool taken_ = false;
  bool known_ = false;
  bool ended_ = false;
  int not_started_ = 0;
  int pid_ = -1;
  Finished finished_;
};

}  // namespace quarry::lvm::zygote
