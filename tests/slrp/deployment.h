// The files of deploy/mesos, as Mesos reads them: profiles for UriDiskProfileAdaptor, a storage local
// resource provider, a plugin for the volume/csi isolator. Parsed and checked by Mesos' own rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tests/slrp/plugin.h"

namespace quarry::slrp {

struct Profile {
  std::string name;
  std::string plugin_type;  // of its selector; empty if it selects providers by name
  Capability capability;
  Strings parameters;
};

struct ProviderConfig {
  std::string name;         // of the resource provider
  std::string plugin_type;  // dotted tokens of [A-Za-z0-9_]
  std::string plugin_name;  // one such token
  std::string command;      // of the last container
  double reconcile_seconds = 10;
};

// kInvalidArgument names what Mesos would refuse. Accepts snake_case and camelCase; ignores unknown keys.
Result<std::vector<Profile>> ParseProfiles(std::string_view json);
Result<ProviderConfig> ParseProvider(std::string_view json);

struct IsolatorPlugin {
  std::string type, name;
  std::string endpoint;  // of the node service, "unix:///…"
  std::string target_path_root;
  bool target_path_exists = false;
};
Result<IsolatorPlugin> ParseIsolatorPlugin(std::string_view json);

// Returns the whole file. kNotFound and other errors name it.
Result<std::string> ReadFile(const std::string& path);

}  // namespace quarry::slrp
