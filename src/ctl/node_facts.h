// What a report says about a node: commands, files of the kernel, and what quarryd answers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "ctl/report.h"
#include "daemon/settings/values.h"

namespace quarry::ctl {

struct NodeQuestion {
  std::string program;                 // path of quarryctl itself, for its own reports
  std::vector<std::string> own_flags;  // its flags for them: --config, --pool, --endpoint
  std::string endpoint;                // quarryd's admin endpoint; empty: the usual one
  std::string version;                 // of quarryctl
  std::string config;                  // path of quarryd's configuration file
  std::optional<daemon::MetricsAddress> metrics;
  std::string scratch;  // an empty folder, for commands that write files
};

// All parts. They stand alone: none needs another, or a running quarryd.
std::vector<ReportPart> NodeFacts(const NodeQuestion& question, const std::shared_ptr<Subprocess>& children);

// The tasks below `proc` (the mount point of procfs) that are in uninterruptible sleep, with the place in the
// kernel where each waits. Command lines are left out, because they may contain secrets.
std::string StuckTasks(const std::string& proc);

}  // namespace quarry::ctl
