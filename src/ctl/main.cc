// quarryctl: the command line tool of a node's administrator.
#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ctl/cli/command.h"
#include "ctl/cli/tables.h"
#include "daemon/settings/option_list.h"

namespace quarry::ctl {
namespace {

constexpr int kWrongUse = 2;

int Main(int argc, char** argv) {
  CLI::App app{
      "quarryctl: makes, mounts and deletes volumes and buckets of this node; inspects its pools and disks; "
      "makes "
      "quarryd "
      "adopt, release, repair and scrub volumes and evacuate disks",
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
  const auto add = [&](CLI::App& above, const std::vector<Command>& table) {
    for (const Command& command : table) {
      CLI::App* sub = above.add_subcommand(command.name, command.description);
      sub->fallthrough();  // --json and --pool may come after the command too
      runs[sub] = command.set_up(*sub, common);
    }
  };
  CLI::App* const volume = app.add_subcommand("volume", "make, mount, grow, copy and delete volumes");
  volume->require_subcommand(1)->fallthrough();
  add(*volume, VolumeCommands());
  CLI::App* const bucket =
      app.add_subcommand("bucket", "make and delete S3 buckets, and say who may use them");
  bucket->require_subcommand(1)->fallthrough();
  add(*bucket, BucketCommands());
  CLI::App* const store = app.add_subcommand("store", "look at thin stores and the volumes in them");
  store->require_subcommand(1)->fallthrough();
  add(*store, StoreCommands());
  for (const auto& table : {DeclarationCommands(), PoolCommands(), MonitoringCommands(), ServiceCommands(),
                            DiskCommands(), AdoptionCommands(), InquiryCommands(), ReportCommands()}) {
    add(app, table);
  }
  if (argc == 2 && std::string_view(argv[1]) == daemon::kListOptions) {
    std::cout << daemon::OptionList(app);
    return std::cout.flush() ? 0 : 1;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool checks = app.got_subcommand(kCheckCommand);
    const int status = app.exit(error, std::cout, checks ? std::cout : std::cerr);
    return status == 0 ? 0 : checks ? kCheckUnknown : kWrongUse;
  }

  const bool checks = app.got_subcommand(kCheckCommand);
  int exit_status = 0;
  const CLI::App* chosen = app.get_subcommands().front();
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
  }
  const auto text = runs.at(chosen)(exit_status);
  if (!text.has_value()) {
    // A monitoring system shows what a plugin writes to standard output.
    (checks ? std::cout : std::cerr) << "quarryctl: " << text.error().message() << '\n';
    const int usual = text.error().code() == Code::kInvalidArgument ? kWrongUse : 1;
    return checks ? kCheckUnknown : std::max(usual, exit_status);  // a command may have its own for a failure
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
