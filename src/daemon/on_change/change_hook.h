// Runs the command of --on-change at each change of a condition.
#pragma once

#include <condition_variable>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/call.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "daemon/on_change/condition_book.h"

namespace quarry::daemon {

struct ChangeHookConfig {
  AbsolutePath command;
  std::string node;
  std::string file;                              // remembers what was told, for the next process
  std::chrono::milliseconds time_limit{30'000};  // of the command
  std::chrono::milliseconds look_interval{30'000};
};

// The command that tells of one change: its environment, and one JSON object on its standard input. Control
// characters are replaced in the environment, because its values may end up in the head of a mail. Pure.
Command TellingOf(const Change& change, const ChangeHookConfig& config,
                  std::chrono::system_clock::time_point now);

// Owns two threads: one looks at the conditions, the other one runs the command, once at a time. A command
// that fails, or that is killed at its time limit, is logged and not repeated. While the command may not be
// run (command_file.h), changes wait in the book.
class ChangeHook {
 public:
  using Look = std::function<Result<std::vector<engine::PoolStatus>>(const Call&)>;

  // The references outlive the object. Looks at once, after Wake(), and at intervals.
  ChangeHook(ChangeHookConfig config, Look look, Subprocess& subprocess, const Clock& clock,
             const Logger& log);
  // Kills a running command and everything in its process group.
  ~ChangeHook() = default;
  ChangeHook(const ChangeHook&) = delete;
  ChangeHook& operator=(const ChangeHook&) = delete;

  // Something may have changed. May be called from any thread.
  void Wake();
  // Stops without waiting for the end. The destructor waits.
  void RequestStop();

 private:
  void LookAgainAndAgain(const std::stop_token& stop);
  void TellAgainAndAgain(const std::stop_token& stop);
  // Whether the command may be run. Logs each change of that.
  bool MayRun();
  void Tell(const Change& change, const std::stop_token& stop);
  void Report(size_t returned) const;
  void Keep(const ToldConditions& told);

  const ChangeHookConfig config_;
  const Look look_;
  Subprocess& subprocess_;
  const Clock& clock_;
  const Logger& log_;
  // Only the telling thread uses these two.
  bool kept_ = true;     // whether the file could be written
  std::string refused_;  // why the command may not be run, as logged last; empty: it may
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  ConditionBook book_ ABSL_GUARDED_BY(mutex_);
  std::jthread looker_, teller_;  // last: everything above exists before they run
};

}  // namespace quarry::daemon
