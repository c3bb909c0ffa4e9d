// Keeps one S3 gateway running: starts it when gateway.env is there, again when it ends or when gateway.env
// changes, and ends it when this process is asked to end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "gateway/back_off.h"
#include "gateway/environment_file.h"
#include "gateway/gateway_version.h"

namespace quarry::gateway {

struct KeeperSettings {
  AbsolutePath folder;       // what quarryd and the gateway share
  std::string versitygw;     // the program
  bool any_version = false;  // also a version that was not tested with Quarry
};

// One per process, used from the main thread while there is no other: it forks, receives signals, reaps every
// child, and gives up the rights of root.
class Keeper {
 public:
  // Blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD for good.
  static Result<Keeper> Create(KeeperSettings settings, const Logger& log);

  // Returns after SIGTERM or SIGINT, once the gateway has ended. SIGHUP is passed on: the gateway reads its
  // certificate again. An error means that this process cannot continue: it may not become the gateway's
  // user, or that user changed.
  Status Run();

 private:
  Keeper(KeeperSettings settings, const Logger& log, UniqueFd signals, UniqueFd changes);

  void TakeSignals();
  void Reap();
  void Ended(int status);
  Status LookAtFile();
  Status Take(EnvironmentFile file);
  void LookAtCertificate();
  // The version of versitygw if it may run.
  std::optional<std::string> CheckVersion();
  void Start(const EnvironmentFile& file);
  void StartIfDue();
  void EndChild();
  void KillIfDue();
  void Wait() const;
  std::chrono::milliseconds UntilNextStep() const;

  KeeperSettings settings_;
  const Logger* log_;
  AbsolutePath path_;  // gateway.env
  UniqueFd signals_, changes_;
  std::optional<EnvironmentFile> file_;
  std::optional<FileMark> mark_;
  std::string problem_;  // of gateway.env, as last logged
  VersionCheck version_;
  std::string version_problem_;  // as last logged
  SpawnSubprocess processes_;
  std::vector<std::optional<FileMark>> certificate_;
  pid_t child_ = -1;
  SteadyTime started_{}, next_start_{};
  std::optional<SteadyTime> kill_at_;
  bool hangup_ = false, stopping_ = false;
  BackOff back_off_;
};

}  // namespace quarry::gateway
