// quarryctl: the command line tool of a node's administrator.
#include <csignal>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ctl/cli/command.h"
#include "ctl/cli/tables.h"

namespace quarry::ctl {
namespace {

int Main(int argc, char** argv) {
  CLI::App app{
      "quarryctl: inspects the pools and disks of this node; makes quarryd adopt, release, repair and scrub "
      "volumes and evacuate disks",
      "quarryctl"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "quarryctl " QUARRY_VERSION);
  Common common;
  app.add_option("--config", common.config,
                 fmt::format("quarryd's configuration file [{} if it exists]", daemon::kDefaultConfig));
  app.add_option("--pool", common.pools, "pool and its volume group, NAME=VG[,reserve=SIZE]; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--json", common.json, "print JSON");
  std::map<const CLI::App*, Run> runs;
  for (const auto& table : {PoolCommands(), DiskCommands(), AdoptionCommands()}) {
    for (const Command& command : table) {
      CLI::App* sub = app.add_subcommand(command.name, command.description);
      sub->fallthrough();  // --json and --pool may come after the command too
      runs[sub] = command.set_up(*sub, common);
    }
  }
  CLI11_PARSE(app, argc, argv);

  int exit_status = 0;
  const auto text = runs.at(app.get_subcommands().front())(exit_status);
  if (!text.has_value()) {
    std::cerr << "quarryctl: " << text.error().message() << '\n';
    return text.error().code() == Code::kInvalidArgument ? 2 : 1;
  }
  std::cout << *text;
  return std::cout.flush() ? exit_status : 1;
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
