#include "tests/slrp/deployment.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace quarry::slrp {
namespace {

using nlohmann::json;

constexpr size_t kMaxMountFlags = 4096;
constexpr std::string_view kProviderType = "org.apache.mesos.rp.local.storage";

Error Bad(const std::string& where, const std::string& what) {
  return Error(Code::kInvalidArgument, fmt::format("{}: {}", where, what));
}

Result<json> ParseObject(std::string_view text) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? Result<json>(std::move(parsed)) : Bad("file", "is no JSON object");
}

// protobuf's JSON accepts both spellings of a field.
const json* Find(const json& object, const std::string& snake) {
  std::string camel;
  for (size_t i = 0; i < snake.size(); ++i) {
    const bool joint = snake[i] == '_' && i + 1 < snake.size();
    camel += joint ? static_cast<char>(std::toupper(snake[++i])) : snake[i];
  }
  for (const std::string& key : {snake, camel}) {
    if (object.is_object() && object.contains(key)) {
      return &object.at(key);
    }
  }
  return nullptr;
}

Result<std::string> Text(const json& object, const std::string& key) {
  const json* value = Find(object, key);
  if (value == nullptr || !value->is_string() || value->get<std::string>().empty()) {
    return Bad(key, "must be a string that is not empty");
  }
  return value->get<std::string>();
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

Status CheckPluginType(std::string_view type) {
  for (size_t begin = 0; begin <= type.size();) {
    const size_t end = std::min(type.find('.', begin), type.size());
    if (!IsToken(type.substr(begin, end - begin))) {
      return Bad("plugin type",
                 fmt::format("'{}' must be tokens of letters, digits and '_' between dots", type));
    }
    begin = end + 1;
  }
  return Ok();
}

Result<Capability> ParseCapability(const json& profile) {
  const json* capability = Find(profile, "volume_capabilities");
  if (capability == nullptr) {
    return Bad("volume_capabilities", "is required");
  }
  const json* mode = Find(*capability, "access_mode");
  if (mode == nullptr || Find(*mode, "mode") == nullptr || *Find(*mode, "mode") != "SINGLE_NODE_WRITER") {
    return Bad("volume_capabilities.access_mode.mode", "must be SINGLE_NODE_WRITER for a disk of one node");
  }
  const json* mount = Find(*capability, "mount");
  const json* block = Find(*capability, "block");
  if ((mount == nullptr) == (block == nullptr)) {
    return Bad("volume_capabilities", "needs one of mount and block");
  }
  Capability parsed;
  parsed.block = block != nullptr;
  if (mount == nullptr) {
    return parsed;
  }
  if (const json* type = Find(*mount, "fs_type"); type != nullptr && type->is_string()) {
    parsed.fs_type = type->get<std::string>();
  }
  size_t length = 0;
  if (const json* flags = Find(*mount, "mount_flags"); flags != nullptr && flags->is_array()) {
    for (const json& flag : *flags) {
      if (!flag.is_string()) {
        return Bad("mount_flags", "must be strings");
      }
      parsed.mount_flags.push_back(flag.get<std::string>());
      length += parsed.mount_flags.back().size();
    }
  }
  return length <= kMaxMountFlags ? Result<Capability>(parsed) : Bad("mount_flags", "are longer than 4 KiB");
}

Result<Profile> ParseProfile(const std::string& name, const json& value) {
  Profile profile{.name = name, .plugin_type = {}, .capability = {}, .parameters = {}};
  const json* by_type = Find(value, "csi_plugin_type_selector");
  const json* by_provider = Find(value, "resource_provider_selector");
  if ((by_type == nullptr) == (by_provider == nullptr)) {
    return Bad("selector",
               "exactly one of csi_plugin_type_selector and resource_provider_selector is needed");
  }
  if (by_type != nullptr) {
    QUARRY_ASSIGN(profile.plugin_type, Text(*by_type, "plugin_type"));
  }
  QUARRY_ASSIGN(profile.capability, ParseCapability(value));
  const json* given = Find(value, "create_parameters");
  const json parameters = given != nullptr ? *given : json::object();
  for (const auto& [key, parameter] : parameters.items()) {
    if (!parameter.is_string()) {
      return Bad(fmt::format("create_parameters['{}']", key), "must be a string");
    }
    profile.parameters[key] = parameter.get<std::string>();
  }
  return profile;
}

// Returns the command of the last container. Together the containers must offer both services.
Result<std::string> ParseContainers(const json& plugin) {
  const json* containers = Find(plugin, "containers");
  if (containers == nullptr || !containers->is_array() || containers->empty()) {
    return Bad("storage.plugin.containers", "is required");
  }
  std::set<std::string> offered;
  std::string command;
  for (const json& container : *containers) {
    const json* services = Find(container, "services");
    if (services == nullptr || !services->is_array()) {
      return Bad("containers.services", "is required");
    }
    for (const json& service : *services) {
      offered.insert(service.get<std::string>());
    }
    const json* run = Find(container, "command");
    if (run == nullptr) {
      return Bad("containers.command", "is required");
    }
    QUARRY_ASSIGN(command, Text(*run, "value"));
  }
  // The provider asserts both services, even if Mesos' configuration check does not.
  if (offered != std::set<std::string>{"CONTROLLER_SERVICE", "NODE_SERVICE"}) {
    return Bad("containers.services", "must offer CONTROLLER_SERVICE and NODE_SERVICE together");
  }
  return command;
}

}  // namespace

Result<std::vector<Profile>> ParseProfiles(std::string_view text) {
  QUARRY_ASSIGN(const json file, ParseObject(text));
  const json* matrix = Find(file, "profile_matrix");
  if (matrix == nullptr || !matrix->is_object() || matrix->empty()) {
    return Bad("profile_matrix", "is required");
  }
  std::vector<Profile> profiles;
  for (const auto& [name, value] : matrix->items()) {
    auto profile = ParseProfile(name, value);
    if (!profile.has_value()) {
      return std::move(profile.error()).Context(fmt::format("profile '{}'", name));
    }
    profiles.push_back(std::move(*profile));
  }
  return profiles;
}

Result<ProviderConfig> ParseProvider(std::string_view text) {
  QUARRY_ASSIGN(const json file, ParseObject(text));
  ProviderConfig config;
  QUARRY_ASSIGN(const std::string type, Text(file, "type"));
  if (type != kProviderType) {
    return Bad("type", fmt::format("must be {}", kProviderType));
  }
  QUARRY_ASSIGN(config.name, Text(file, "name"));
  const json* storage = Find(file, "storage");
  const json* plugin = storage != nullptr ? Find(*storage, "plugin") : nullptr;
  if (plugin == nullptr) {
    return Bad("storage.plugin", "is required");
  }
  QUARRY_ASSIGN(config.plugin_type, Text(*plugin, "type"));
  QUARRY_ASSIGN(config.plugin_name, Text(*plugin, "name"));
  QUARRY_TRY(CheckPluginType(config.plugin_type));
  for (const std::string& name : {config.name, config.plugin_name}) {
    if (!IsToken(name)) {
      return Bad("name", fmt::format("'{}' must be of letters, digits and '_'", name));
    }
  }
  QUARRY_ASSIGN(config.command, ParseContainers(*plugin));
  if (const json* interval = Find(*storage, "reconciliation_interval_seconds"); interval != nullptr) {
    config.reconcile_seconds = interval->get<double>();
  }
  return config;
}

Result<IsolatorPlugin> ParseIsolatorPlugin(std::string_view text) {
  QUARRY_ASSIGN(const json file, ParseObject(text));
  IsolatorPlugin plugin;
  QUARRY_ASSIGN(plugin.type, Text(file, "type"));
  QUARRY_TRY(CheckPluginType(plugin.type));
  QUARRY_ASSIGN(plugin.name, Text(file, "name"));
  const json* endpoints = Find(file, "endpoints");
  for (const json& endpoint : endpoints != nullptr ? *endpoints : json::array()) {
    const json* service = Find(endpoint, "csi_service");
    if (service != nullptr && *service == "NODE_SERVICE") {
      QUARRY_ASSIGN(plugin.endpoint, Text(endpoint, "endpoint"));
    }
  }
  if (!plugin.endpoint.starts_with("unix:///")) {
    return Bad("endpoints", "needs a NODE_SERVICE at a unix:/// socket");
  }
  QUARRY_ASSIGN(plugin.target_path_root, Text(file, "target_path_root"));
  const json* exists = Find(file, "target_path_exists");
  plugin.target_path_exists = exists != nullptr && *exists == true;
  return plugin;
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return ErrnoError(path, errno);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace quarry::slrp
