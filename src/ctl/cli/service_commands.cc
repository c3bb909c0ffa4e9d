// reload.
#include <utility>

#include <CLI/CLI.hpp>

#include "ctl/cli/tables.h"

namespace quarry::ctl {
namespace {

Run SetUpReload(CLI::App& sub, const Common& common) {
  sub.footer(
      "Exit status: 0 if every setting is in force as the file has it now, 1 if a changed setting needs a "
      "restart of quarryd or no quarryd answers, 2 if a setting is invalid and nothing changed.");
  return AskQuarryd(sub, common, [](AdminClient& client, int& exit_status) -> Result<std::string> {
    QUARRY_ASSIGN(AdminClient::Reloaded reloaded, client.Reload(CallWithin(kPatience)));
    exit_status = reloaded.in_force ? 0 : 1;
    return std::move(reloaded.text);
  });
}

}  // namespace

std::vector<Command> ServiceCommands() {
  return {
      {"reload", "make the running quarryd read its settings again, and name those that need a restart",
       &SetUpReload},
  };
}

}  // namespace quarry::ctl
