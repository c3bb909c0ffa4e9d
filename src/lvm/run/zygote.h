// Runs LVM's commands in forked children of the LVM zygote (zygote_main.cc) instead of starting the lvm
// program. The costs of a start (linking, configuration, command table) are paid once. Figures:
// docs/freshness.md.
//
// The zygote is a program of its own. posix_spawn starts it when it is first needed, and again after it has
// died, so no thread of quarryd is ever forked. The zygote ends with quarryd; commands in progress then run
// to their end, except those that only watch (pvmove).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/subprocess.h"

namespace quarry::lvm {

namespace zygote {
class Process;
class Running;
}  // namespace zygote

// Whether the zygote can run this command line as it is (`words` is argv without argv[0]). liblvm2cmd takes
// one line and splits it itself. So empty words, more than 63 words, and words with a blank, a quote, a
// backslash or anything but printable ASCII are refused, not quoted.
bool FitsZygote(const std::vector<std::string>& words);

// Path of the zygote's program: beside the running program, or in /usr/libexec/quarry. Empty: not found.
std::string ZygoteProgram();

// Thread-safe. Commands run concurrently, each in a process and process group of its own.
class ZygoteSubprocess final : public Subprocess {
 public:
  // Called, from any thread, with the reason why `others` ran a command that the zygote should have run.
  using Tell = std::function<void(const Command& command, const Error& why)>;

  // `program`: from ZygoteProgram(). `others` runs what the zygote cannot: programs other than lvm,
  // environments other than that of the first command, input, and more than two inherited descriptors (the
  // zygote's command has them under other numbers). `others` also runs lines that do not fit (kUnsupported),
  // and everything while the zygote cannot be started; `tell` is called for these two, and for another
  // environment. `others` must outlive the object.
  ZygoteSubprocess(std::string program, Subprocess& others, Tell tell = {});
  ~ZygoteSubprocess() override;

  // As Subprocess::Run. Also kUnavailable: the command's process and the zygote were killed, so the outcome
  // of the command is unknown.
  Result<Finished> Run(const Command& command, const Call& call) override;
  StuckChildren Stuck() override;

  // For metrics and tests.
  struct Counts {
    uint64_t run = 0;        // commands that the zygote ran to their end
    uint64_t passed_on = 0;  // commands that `others` ran
    uint64_t starts = 0;     // of the zygote
  };
  Counts counts() const;
  // Process id; nullopt while there is no zygote.
  std::optional<int> pid() const;

 private:
  std::shared_ptr<zygote::Process> Current(const Command& command, const Call& call);
  void Drop(const std::shared_ptr<zygote::Process>& dead);
  Error Stopped(std::unique_ptr<zygote::Running> running, const Command& command, Error reason);
  Result<Finished> PassOn(const Command& command, const Call& call);

  const std::string program_;
  Subprocess& others_;
  const Tell tell_;
  mutable Mutex mutex_;
  std::shared_ptr<zygote::Process> zygote_ ABSL_GUARDED_BY(mutex_);
  std::optional<Error> failure_ ABSL_GUARDED_BY(mutex_);
  SteadyTime failed_at_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<zygote::Running>> stuck_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::lvm
