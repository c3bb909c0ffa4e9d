// Runs LVM's commands in forked children of the LVM zygote (zygote_main.cc) instead of starting the lvm
// program: what a start costs (linking, configuration, command table) is paid once. Figures:
// docs/freshness.md.
//
// The zygote is a program of its own, started with posix_spawn when first needed and again whenever it has
// died: no thread of ours is ever forked. It ends with us; commands under way then run to their end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/subprocess.h"

namespace quarry::lvm {

namespace zygote {
class Process;
class Running;
}  // namespace zygote

// Whether the zygote can run this command line (the word after argv[0] is the first of `words`) as it stands.
// liblvm2cmd takes one line and splits it by itself, so a word that holds a blank, a quote, a backslash or
// anything but plain printable ASCII is not quoted but refused, as are empty words, and more than 63 of them.
bool FitsZygote(const std::vector<std::string>& words);

// Where the zygote's program is: beside our own, or in /usr/libexec/quarry. Empty: nowhere.
std::string ZygoteProgram();

// Thread-safe. Commands run at the same time, each in a process (and process group) of its own.
class ZygoteSubprocess final : public Subprocess {
 public:
  // Told, from any thread, why a command that the zygote is for was run by `others`.
  using Tell = std::function<void(const Command& command, const Error& why)>;

  // `program`: as of ZygoteProgram(). `others` runs what the zygote cannot: other programs than lvm, other
  // environments than that of its first command, input, inherited descriptors (but for a lock to hold); and,
  // which `tell` hears of, lines that do not fit (kUnsupported), and everything while the zygote cannot be
  // started. Must outlive the object.
  ZygoteSubprocess(std::string program, Subprocess& others, Tell tell = {});
  ~ZygoteSubprocess() override;

  // As of Subprocess. kUnavailable, besides: the command's process is gone and nobody knows how it ended (it
  // and the zygote were killed): its outcome is unknown.
  Result<Finished> Run(const Command& command, const Call& call) override;
  StuckChildren Stuck() override;

  // For metrics and tests.
  struct Counts {
    uint64_t run = 0;        // commands that the zygote took
    uint64_t passed_on = 0;  // commands that `others` ran
    uint64_t starts = 0;     // of the zygote
  };
  Counts counts() const;
  // Process id; nullopt while there is none.
  std::optional<int> pid() const;
  // Why the zygote could not be started when this was last tried; OK otherwise.
  Status start_failure() const;

 private:
  std::shared_ptr<zygote::Process> Current(const Command& command, const Call& call);
  void Drop(const std::shared_ptr<zygote::Process>& dead);
  Error Stopped(std::unique_ptr<zygote::Running> running, const Command& command, Error reason);
  Result<Finished> PassOn(const Command& command, const Call& call);

  const std::string program_;
  Subprocess& others_;
  const Tell tell_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<zygote::Process> zygote_;
  std::optional<Error> failure_;
  SteadyTime failed_at_;
  Counts counts_;
  std::vector<std::unique_ptr<zygote::Running>> stuck_;
};

}  // namespace quarry::lvm
