// The command line, as a layer of settings. The values stay text here. The same code parses them later,
// whatever their source, so flags, environment and file accept the same values.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "daemon/settings/option_list.h"
#include "daemon/settings/options.h"

namespace quarry::daemon {

Result<CommandLine> ReadFlags(const std::vector<std::string>& args, const std::string& version) {
  CLI::App app{"quarryd: node-local volumes from LVM volume groups, through CSI", "quarryd"};
  app.set_version_flag("--version", "quarryd " + version);
  std::map<std::string, std::string> texts;
  for (const Setting& setting : Settings()) {
    const std::string help = fmt::format("{} ({})", setting.help, setting.env);
    if (setting.is_switch) {
      app.add_flag("--" + setting.name, texts[setting.name], help);
    } else {
      app.add_option("--" + setting.name, texts[setting.name], help);
    }
  }
  std::vector<std::string> pools;
  app.add_option("--pool", pools,
                 "pool and its volume group, NAME=VG[,key=value...]; repeatable, the first is the default "
                 "(QUARRY_POOL, several separated by ';')")
      ->allow_extra_args(false);
  std::string config;
  app.add_option("--config", config,
                 fmt::format("configuration file [{} if it exists] (QUARRY_CONFIG)", kDefaultConfig));
  CommandLine result;
  app.add_flag(
      "--check", result.check,
      "check the settings, the pools' groups and the disk rules, print what was understood and every "
      "problem, and exit: 0 without problems, else 1. Nothing is started or changed, and a running "
      "quarryd is not disturbed");
  if (args.size() == 1 && args.front() == kListOptions) {
    result.print = OptionList(app);
    return result;
  }
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 expects them in reverse order
  } catch (const CLI::CallForHelp&) {
    result.print = app.help();
    return result;
  } catch (const CLI::CallForVersion& call) {
    result.print = std::string(call.what()) + "\n";
    return result;
  } catch (const CLI::Error& error) {
    return Error(Code::kInvalidArgument, error.what());
  }
  for (const Setting& setting : Settings()) {
    if (app.count("--" + setting.name) > 0) {
      result.layer.settings[setting.name] = {"--" + setting.name, texts[setting.name]};
    }
  }
  std::vector<PoolDraft> drafts;
  for (const std::string& pool : pools) {
    QUARRY_ASSIGN(PoolDraft draft, ParsePoolText("--pool", pool));
    drafts.push_back(std::move(draft));
  }
  if (!drafts.empty()) {
    result.layer.pools = std::move(drafts);
  }
  if (app.count("--config") > 0) {
    result.config = config;
  }
  return result;
}

}  // namespace quarry::daemon
