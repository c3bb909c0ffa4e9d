// quarryctl: what an administrator asks a node.
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/subprocess.h"
#include "ctl/commands.h"
#include "daemon/options.h"
#include "daemon/values.h"
#include "dm/dm_kernel.h"
#include "lvm/lvm_config.h"
#include "lvm/lvm_spawn.h"

namespace quarry::ctl {
namespace {

constexpr std::chrono::milliseconds kPatience{120000};

struct Arguments {
  std::string config;
  std::vector<std::string> pools;
  std::vector<std::string> parameters;
  std::string size;
  std::string colour = "auto";
  size_t width = 0;
  bool json = false;
};

size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

bool UseColour(const std::string& wish) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread here
  return wish == "always" || (wish == "auto" && isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nullptr);
}

Result<engine::Parameters> ParseParameters(const std::vector<std::string>& words) {
  engine::Parameters parameters;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return Error(Code::kInvalidArgument,
                   fmt::format("'{}': a parameter is KEY=VALUE, as in type=raid1", word));
    }
    parameters[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return parameters;
}

// The pools as quarryd would see them: flags, environment, file. What only a server needs is filled in here.
Result<daemon::Options> LoadOptions(const Arguments& arguments) {
  std::vector<std::string> flags = {"--endpoint", "unix:///run/quarryctl.sock", "--node-id", "quarryctl"};
  for (const std::string& pool : arguments.pools) {
    flags.insert(flags.end(), {"--pool", pool});
  }
  if (!arguments.config.empty()) {
    flags.insert(flags.end(), {"--config", arguments.config});
  }
  daemon::Environment environment;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  QUARRY_ASSIGN(daemon::Loaded loaded, daemon::Load(flags, environment, QUARRY_VERSION));
  return std::move(loaded.options);
}

Result<std::string> RunCommand(const std::string& name, const Arguments& arguments) {
  QUARRY_ASSIGN(const daemon::Options options, LoadOptions(arguments));
  const Call call = CallWithin(kPatience);
  SpawnSubprocess subprocess;
  const std::string system_dir = options.state_dir + "/lvm";
  QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = system_dir}));
  QUARRY_ASSIGN(const auto lvm, lvm::LvmSpawn::Make(subprocess, {.system_dir = system_dir}, call));
  dm::DmKernel dm;
  const Bench bench{*lvm, dm, options.pools, arguments.json};
  QUARRY_ASSIGN(const engine::Parameters parameters, ParseParameters(arguments.parameters));
  const ProfileWish wish{parameters, arguments.size};
  if (name == "map") {
    return ShowMap(bench, arguments.width > 0 ? arguments.width : TerminalWidth(),
                   UseColour(arguments.colour), call);
  }
  if (name == "plan") {
    QUARRY_ASSIGN(const Bytes size, daemon::ParseSize(arguments.size));
    return ShowPlan(bench, wish, size, call);
  }
  return ShowCapacity(bench, wish, call);
}

int Main(int argc, char** argv) {
  CLI::App app{"quarryctl: looks at the pools of this node; changes nothing", "quarryctl"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "quarryctl " QUARRY_VERSION);
  Arguments arguments;
  app.add_option("--config", arguments.config,
                 fmt::format("quarryd's configuration file [{} if it exists]", daemon::kDefaultConfig));
  app.add_option("--pool", arguments.pools, "pool and its volume group, NAME=VG[,reserve=SIZE]; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--json", arguments.json, "print JSON");

  CLI::App* capacity = app.add_subcommand("capacity", "the largest volume that each profile can have now");
  capacity->add_option("parameters", arguments.parameters,
                       "only this profile: KEY=VALUE…, as in a StorageClass");
  CLI::App* map = app.add_subcommand("map", "what lies where on each disk");
  map->add_option("--width", arguments.width, "columns to draw in [the terminal's, else 80]");
  map->add_option("--color,--colour", arguments.colour, "auto, always or never [auto]")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  CLI::App* plan = app.add_subcommand("plan", "what creating a volume would do, without doing it");
  plan->add_option("--size", arguments.size, "size of the volume, such as 10GiB")->required();
  plan->add_option("parameters", arguments.parameters, "KEY=VALUE…, as in a StorageClass");
  for (CLI::App* sub : {capacity, map, plan}) {
    sub->fallthrough();  // --json and --pool may come after the command too
  }
  CLI11_PARSE(app, argc, argv);

  const auto text = RunCommand(app.get_subcommands().front()->get_name(), arguments);
  if (!text.has_value()) {
    std::cerr << "quarryctl: " << text.error().message() << '\n';
    return text.error().code() == Code::kInvalidArgument ? 2 : 1;
  }
  std::cout << *text;
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace quarry::ctl

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return quarry::ctl::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "quarryctl: " << error.what() << '\n';
    return 1;
  }
}
