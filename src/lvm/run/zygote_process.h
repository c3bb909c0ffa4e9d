// The LVM zygote's process and the commands in it, from our side of the sockets (zygote_wire.h). Internal to
// ZygoteSubprocess, which has the promises.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "lvm/run/zygote_spawn.h"
#include "lvm/run/zygote_wire.h"

namespace quarry::lvm::zygote {

// Thread-safe.
class Process {
 public:
  // Started and ready for commands. kUnavailable with the program's words if it ended instead.
  static Result<std::shared_ptr<Process>> Start(const std::string& program, const Environment& env,
                                                const Call& call);
  // Tells it to end, and reaps it if that is at once: it waits for its commands.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const Environment& env() const { return env_; }
  bool IsGone() const;
  // Hands over a request with its three or four descriptors. False: it is gone and has not got it, or it does
  // not take requests any more.
  bool Send(const std::string& request, std::span<const int> fds) const;
  // What has been taken goes on; what has not is never run.
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
  // nullptr: the zygote is gone and has not got the request.
  static Result<std::unique_ptr<Running>> Start(std::shared_ptr<Process> zygote, const Command& command);

  // To its end, or to that of the call: then the call's error, and the command goes on.
  Status Wait(const Call& call);
  // TERM, then KILL: LVM blocks signals while it holds a group's lock. A zygote that has not even taken the
  // command by then is killed itself, so that it never will. False: the command survived even that.
  bool Stop(std::chrono::milliseconds grace);
  // Takes what came, without waiting.
  void Sweep() { Step(std::chrono::milliseconds::zero()); }

  bool ended() const { return ended_; }
  // Ended because the zygote died before it took the request: nothing was run.
  bool WasLost() const { return ended_ && !taken_; }
  int pid() const { return pid_; }  // -1 until known
  const std::string& name() const { return name_; }
  std::chrono::milliseconds Elapsed() const;
  // What it said on standard error so far, for messages.
  std::string Words() const;
  // Once it has ended. kUnavailable: nobody knows how.
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
