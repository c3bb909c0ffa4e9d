// The settings of quarryd: flags, environment, configuration file, defaults, in this order of precedence.
// Each setting comes whole from the first source that names it. Pools from several sources are not merged
// either.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "csi/server.h"
#include "daemon/monitoring/statsd.h"
#include "daemon/settings/bucket_options.h"
#include "daemon/settings/values.h"

namespace quarry::daemon {

// What runs LVM commands: a zygote (lvm/run/zygote.h), or an lvm process started for each command.
enum class LvmBy { kZygote, kSpawn };

// What the engine is configured with, and what the process around it needs.
struct Options : engine::EngineConfig {
  Options() { scrub_interval = std::chrono::days(28); }

  std::optional<AbsolutePath> endpoint;        // set by every successful Load
  std::optional<AbsolutePath> admin_endpoint;  // set by every successful Load unless admin_off is true
  bool admin_off = false;                      // true: quarryctl is not served
  std::optional<AbsolutePath> kubelet_dir;     // the kubelet's root folder; nullopt: no registration
  // Where the kubelet looks for this driver. Set by every successful Load if kubelet_dir is.
  std::optional<AbsolutePath> registration_socket;
  std::string driver_name = "quarry.csi.local";
  csi::Mode mode = csi::Mode::kAll;
  uint32_t max_volumes = 0;
  bool alpha = false;
  // For Mesos: callers wait instead of getting "busy" or "not yet", and the socket appears once quarryd can
  // answer.
  bool patient = false;
  std::string state_dir = "/run/quarry";
  LvmBy lvm = LvmBy::kZygote;
  std::chrono::hours trim_interval{0};       // 0: never
  std::chrono::seconds health_interval{60};  // 0: never
  std::optional<MetricsAddress> metrics;
  std::optional<StatsdAddress> statsd;
  std::optional<AbsolutePath> on_change;  // the command that is run when a condition changes; nullopt: none
  BucketOptions buckets;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kJson;
};

// A setting and the value that one source gives it.
struct Given {
  std::string origin;  // for errors: "--log-level", "QUARRY_LOG_LEVEL", "/etc/quarry/quarry.toml: log-level"
  std::string text;
};

// All that one source sets, by setting ("log-level").
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
const std::vector<Setting>& Settings();  // all but "pool" and "config", which have no single value

inline constexpr const char* kDefaultConfig = "/etc/quarry/quarry.toml";

using Environment = std::map<std::string, std::string>;

struct Loaded {
  Options options;
  std::string print;  // --help or --version: print this text and exit; otherwise empty
  // The text of each setting that a source names, by setting; "pool" has all pools. To compare with another
  // Load.
  std::map<std::string, std::string> given;
};

// `args`: the command line without the program's name. An invalid setting gives kInvalidArgument, and the
// message names the setting and where it was given. A configuration file that cannot be read gives the error
// of the read, such as kNotFound. `default_config` is read if it exists.
Result<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                    const std::string& version, const std::string& default_config = kDefaultConfig);

// What Load finds out, with all problems instead of the first one.
struct SettingsReport {
  std::vector<std::string>
      given;  // "erase-rate = 50MiB (--erase-rate)", for each setting that is not the default
  std::vector<Error> problems;
  std::optional<Options> options;  // if there are no problems
};
SettingsReport ReportSettings(const std::vector<std::string>& args, const Environment& environment,
                              const std::string& version, const std::string& default_config = kDefaultConfig);

// The sources (flags.cc, config_file.cc, options.cc).
struct CommandLine {
  Layer layer;
  std::optional<std::string> config;  // --config
  std::string print;
  bool check = false;  // --check: see check.h
};
Result<CommandLine> ReadFlags(const std::vector<std::string>& args, const std::string& version);
Result<Layer> ReadEnvironment(const Environment& environment);
// kNotFound if the file does not exist.
Result<Layer> ReadConfigFile(const std::string& path);
// `origin` is the name of the text in error messages. Pure.
Result<Layer> ParseConfig(std::string_view text, const std::string& origin);

}  // namespace quarry::daemon
