#include "daemon/reload.h"

#include <algorithm>
#include <vector>

#include "daemon/on_change/command_file.h"

namespace quarry::daemon {

Result<csi::Reloaded> Reload(const LoadAgain& load_again, const Appliers& appliers, GivenSettings& given,
                             const Logger& log) {
  const auto loaded = load_again();
  if (!loaded.has_value()) {
    log.Error("the configuration is invalid, so nothing was changed", {{"detail", loaded.error().message()}});
    return Error(loaded.error())
        .As(Code::kInvalidArgument)
        .Context("the configuration is invalid, so nothing was changed");
  }
  const std::vector<std::string> differing = DifferingSettings(given, loaded->given);
  const auto& command = loaded->options.on_change;
  if (command.has_value() && std::ranges::find(differing, "on-change") != differing.end()) {
    if (Status fit = CheckCommandFile(*command); !fit.has_value()) {
      log.Error("the program of --on-change cannot be run, so nothing was changed",
                {{"detail", fit.error().message()}});
      return std::move(fit.error())
          .As(Code::kInvalidArgument)
          .Context("on-change cannot be run, so nothing was changed");
    }
  }
  for (const std::string& setting : differing) {
    if (const auto applier = appliers.find(setting); applier != appliers.end()) {
      applier->second(loaded->options);
      TakeOver(setting, loaded->given, given);
    }
  }
  // Afterwards, by the new level of the log.
  csi::Reloaded reloaded;
  for (const std::string& setting : differing) {
    if (appliers.contains(setting)) {
      log.Info("a changed setting is in force", {{"setting", setting}});
      reloaded.in_force.push_back(setting);
    } else {
      log.Warning("a changed setting needs a restart of quarryd", {{"setting", setting}});
      reloaded.needs_restart.push_back(setting);
    }
  }
  log.Info("the configuration was read again");
  return reloaded;
}

}  // namespace quarry::daemon
