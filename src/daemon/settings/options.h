// What quarryd was told: flags, environment, configuration file, defaults, in this order of precedence. Each
// setting comes whole from the first source that names it; pools too: they are not merged.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "base/units.h"
#include "csi/server.h"
#include "daemon/settings/values.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Who runs LVM's commands: a zygote (lvm/run/zygote.h), or lvm started for each.
enum class LvmBy { kZygote, kSpawn };

struct Options {
  std::optional<AbsolutePath> endpoint;        // set by every successful Load
  std::optional<AbsolutePath> admin_endpoint;  // likewise, but for admin_off
  bool admin_off = false;                      // quarryctl is not served
  std::string driver_name = "quarry.csi.local";
  std::string node_id;
  csi::Mode mode = csi::Mode::kAll;
  std::vector<engine::PoolConfig> pools;  // at least one
  Bytes default_size = kGiB;
  Bytes extent_size{4 * kMiB.value};
  bool several_targets = true;
  engine::Fsck fsck = engine::Fsck::kOff;
  engine::ExpandBy expand = engine::ExpandBy::kController;
  Bytes ephemeral_max_size;  // 0: no inline volumes
  uint32_t max_volumes = 0;
  bool alpha = false;
  // For Mesos: callers wait rather than be told "busy" or "not yet", and find the socket once it can answer.
  bool patient = false;
  std::string state_dir = "/run/quarry";
  LvmBy lvm = LvmBy::kZygote;
  Bytes erase_rate;  // of each disk, a second; 0: as fast as it goes
  size_t stuck_limit = 4;
  std::chrono::hours trim_interval{0};  // 0: never
  bool repair = true;
  std::chrono::seconds repair_delay{600};
  std::chrono::seconds health_interval{60};                     // 0: never
  std::chrono::seconds scrub_interval = std::chrono::days(28);  // 0: never
  engine::EngineConfig::Hours scrub_hours;
  std::optional<Bytes> rebuild_rate;
  std::optional<MetricsAddress> metrics;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kJson;
};

// A setting that one source names.
struct Given {
  std::string origin;  // for errors: "--log-level", "QUARRY_LOG_LEVEL", "/etc/quarry/quarry.toml: log-level"
  std::string text;
};

// What one source names, by setting ("log-level").
struct Layer {
  std::map<std::string, Given> settings;
  std::optional<std::vector<PoolDraft>> pools;
};

// One setting: "--name" on the command line, `env` in the environment, `name` in the file.
struct Setting {
  std::string name;
  std::string env;
  std::string help;
  Status (*apply)(Options& options, std::string_view text);
  bool is_switch = false;  // "--name" alone means "true"
};
const std::vector<Setting>& Settings();  // all but "pool" and "config", which are no single values

inline constexpr const char* kDefaultConfig = "/etc/quarry/quarry.toml";

using Environment = std::map<std::string, std::string>;

struct Loaded {
  Options options;
  std::string print;  // not empty: --help or --version; print this and be done
};

// `args` without the program's name. kInvalidArgument in one line naming the setting and where it was given.
// `default_config` is read if it exists.
Result<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                    const std::string& version, const std::string& default_config = kDefaultConfig);

// The sources (flags.cc, config_file.cc, options.cc).
struct CommandLine {
  Layer layer;
  std::optional<std::string> config;  // --config
  std::string print;
};
Result<CommandLine> ReadFlags(const std::vector<std::string>& args, const std::string& version);
Result<Layer> ReadEnvironment(const Environment& environment);
// kNotFound if there is no such file.
Result<Layer> ReadConfigFile(const std::string& path);
// `origin` is how errors call the text. Pure.
Result<Layer> ParseConfig(std::string_view text, const std::string& origin);

}  // namespace quarry::daemon
