#include "daemon/reload.h"

#include <vector>

namespace quarry::daemon {

void Reload(const LoadAgain& load_again, const Appliers& appliers, GivenSettings& given, const Logger& log) {
  const auto loaded = load_again();
  if (!loaded.has_value()) {
    log.Error("the configuration is invalid, so nothing was changed", {{"detail", loaded.error().message()}});
    return;
  }
  const std::vector<std::string> differing = DifferingSettings(given, loaded->given);
  for (const std::string& setting : differing) {
    if (const auto applier = appliers.find(setting); applier != appliers.end()) {
      applier->second(loaded->options);
      TakeOver(setting, loaded->given, given);
    }
  }
  // Afterwards, by the new level of the log.
  for (const std::string& setting : differing) {
    if (appliers.contains(setting)) {
      log.Info("a changed setting is in force", {{"setting", setting}});
    } else {
      log.Warning("a changed setting needs a restart of quarryd", {{"setting", setting}});
    }
  }
  log.Info("the configuration was read again");
}

}  // namespace quarry::daemon
