// What every command of quarryctl is made of: its options, and the function that it runs.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scratch_folder.h"
#include "ctl/admin.h"
#include "ctl/commands.h"
#include "daemon/settings/options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace quarry::ctl {

constexpr std::chrono::milliseconds kPatience{120000};

// The flags of every command.
struct Common {
  std::string config;
  std::vector<std::string> pools;
  bool json = false;
};

// Returns the text to print. `exit_status` becomes 1 if the text is complete but reports a failure. The exit
// status after an error is 1, 2 if the usage was wrong, or `exit_status` if that is more.
using Run = std::function<Result<std::string>(int& exit_status)>;

// Adds the options of a command to `sub`. The returned function owns their values. `common` outlives it.
using SetUp = Run (*)(CLI::App& sub, const Common& common);

struct Command {
  const char* name;
  const char* description;
  SetUp set_up;
};

// KEY=VALUE words, as in a StorageClass. kInvalidArgument: a word without '='.
Result<engine::Parameters> ParseParameters(const std::vector<std::string>& words);

// The pools as quarryd would see them, from flags, environment and file. Settings that only a server needs
// are filled in. The node id is "quarryctl" unless `own_node` asks for quarryd's: that may fail, because the
// environment of quarryd's service is not that of quarryctl.
Result<daemon::Options> LoadOptions(const Common& common, bool own_node = false);

// LVM's private configuration lies here, and the links to the disks that LVM sees. It is a folder of its own,
// beside the state folder: that belongs to quarryd, which may be running.
Result<ScratchFolder> MakeOwnFolder(const std::string& state_dir);

// A command that reads the groups through LVM itself.
Run ReadGroups(const Common& common,
               const std::function<Result<std::string>(const Bench&, const Call&)>& show);

// Adds --endpoint. The command connects to quarryd and calls `ask`.
Run AskQuarryd(CLI::App& sub, const Common& common,
               const std::function<Result<std::string>(AdminClient&, int& exit_status)>& ask);

void AddDryRun(CLI::App& sub, bool& dry_run);

}  // namespace quarry::ctl
