#include "ctl/declaration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "ctl/mount_point.h"
#include "mount/mount_api.h"

namespace quarry::ctl {
namespace {

Error At(const std::string& origin, const toml::node& node, std::string_view what) {
  return Error(Code::kInvalidArgument,
               fmt::format("{}: line {}: {}", origin, node.source().begin.line, what));
}

// Parameters of a StorageClass that may stand beside the other keys. The rest goes under `parameters`.
constexpr auto kParameterKeys = std::to_array<std::string_view>({"type", "pool"});

Result<std::string> Text(const std::string& origin, std::string_view key, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    return *text;
  }
  return At(origin, node, fmt::format("{}: must be a string", key));
}

// A parameter is a string; a number or truth value is taken for its text.
Result<std::string> Scalar(const std::string& origin, std::string_view key, const toml::node& node) {
  if (const auto number = node.value_exact<int64_t>()) {
    return fmt::format("{}", *number);
  }
  if (const auto truth = node.value_exact<bool>()) {
    return std::string(*truth ? "true" : "false");
  }
  return Text(origin, key, node);
}

Status ReadParameters(const std::string& origin, const toml::node& node, DeclaredVolume& volume) {
  const toml::table* const table = node.as_table();
  if (table == nullptr) {
    return At(origin, node, "parameters: must be a table, as in parameters = { stripes = 3 }");
  }
  for (const auto& [key, value] : *table) {
    if (std::ranges::find(kParameterKeys, key.str()) != kParameterKeys.end()) {
      return At(origin, value, fmt::format("parameters: {} stands beside parameters, not in it", key.str()));
    }
    QUARRY_ASSIGN(volume.parameters[std::string(key.str())], Scalar(origin, key.str(), value));
  }
  return Ok();
}

Status ReadOptions(const std::string& origin, const toml::node& node, DeclaredVolume& volume) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) {
    return At(origin, node, "options: must be a list, as in options = [\"noatime\"]");
  }
  for (const toml::node& option : *list) {
    QUARRY_ASSIGN(volume.options.emplace_back(), Text(origin, "options", option));
  }
  return Ok();
}

Result<uint32_t> ReadMode(const std::string& origin, const toml::node& node) {
  QUARRY_ASSIGN(const std::string text, Text(origin, "mode", node));
  uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 07777) {
    return At(origin, node,
              fmt::format("mode: must be octal digits in quotes, as in \"0750\", is '{}'", text));
  }
  return mode;
}

Status ReadKey(const std::string& origin, std::string_view key, const toml::node& node,
               DeclaredVolume& volume) {
  if (key == "parameters") {
    return ReadParameters(origin, node, volume);
  }
  if (key == "options") {
    return ReadOptions(origin, node, volume);
  }
  if (key == "mode") {
    QUARRY_ASSIGN(volume.mode, ReadMode(origin, node));
    return Ok();
  }
  if (key == "raw") {
    const auto raw = node.value_exact<bool>();
    if (!raw.has_value()) {
      return At(origin, node, "raw: must be true or false");
    }
    volume.fs_type = *raw ? "" : volume.fs_type;
    return Ok();
  }
  QUARRY_ASSIGN(std::string text, Text(origin, key, node));
  if (key == "name") {
    volume.name = std::move(text);
  } else if (key == "size") {
    auto size = ParseSize(text);
    if (!size.has_value() || *size == Bytes{}) {
      return At(origin, node,
                fmt::format("size: {}", size.has_value() ? "must not be 0" : size.error().message()));
    }
    if (size->value > std::numeric_limits<int64_t>::max()) {
      return At(origin, node, "size: is more than any disk has");
    }
    volume.size = *size;
  } else if (key == "fs") {
    volume.fs_type = std::move(text);
  } else if (key == "mount") {
    auto path = ParseMountPoint(text);
    if (!path.has_value()) {
      return At(origin, node, fmt::format("mount: {}", path.error().message()));
    }
    volume.mount_point = std::move(*path);
  } else if (key == "owner") {
    volume.owner = std::move(text);
  } else if (std::ranges::find(kParameterKeys, key) != kParameterKeys.end()) {
    volume.parameters[std::string(key)] = std::move(text);
  } else {
    return At(
        origin, node,
        fmt::format("unknown key '{}'; the keys are name, size, type, pool, parameters, fs, raw, mount, "
                    "options, owner and mode",
                    key));
  }
  return Ok();
}

Result<DeclaredVolume> ReadVolume(const std::string& origin, const toml::table& table) {
  DeclaredVolume volume;
  volume.where = fmt::format("{}: line {}", origin, table.source().begin.line);
  for (const auto& [key, node] : table) {
    QUARRY_TRY(ReadKey(origin, key.str(), node, volume));
  }
  const auto lacks = [&](std::string_view what) { return At(origin, table, what); };
  if (volume.name.empty()) {
    return lacks("name: is missing");
  }
  if (volume.size == Bytes{}) {
    return lacks(fmt::format("size: volume '{}' has none, as in size = \"10GiB\"", volume.name));
  }
  if (table.contains("raw") && table.contains("fs")) {
    return lacks(
        fmt::format("raw: volume '{}' has a file system too; choose one of raw and fs", volume.name));
  }
  if (volume.fs_type.empty() && (!volume.mount_point.empty() || table.contains("fs"))) {
    return lacks(fmt::format("mount: volume '{}' has no file system", volume.name));
  }
  if (volume.mount_point.empty() && (!volume.options.empty() || !volume.owner.empty() || volume.mode)) {
    return lacks(fmt::format("options, owner and mode of volume '{}' need its mount", volume.name));
  }
  if (const auto options = mount::ParseMountOptions(volume.options); !options.has_value()) {
    return lacks(fmt::format("options: {}", options.error().message()));
  }
  if (std::ranges::find(volume.options, "ro") != volume.options.end() &&
      (!volume.owner.empty() || volume.mode)) {
    return lacks(
        fmt::format("owner and mode of volume '{}' cannot be set on a read-only mount", volume.name));
  }
  return volume;
}

}  // namespace

Result<std::vector<DeclaredVolume>> ParseDeclaration(std::string_view text, const std::string& origin) {
  toml::table root;
  try {
    root = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: line {}: {}", origin, error.source().begin.line, error.description()));
  }
  std::vector<DeclaredVolume> out;
  for (const auto& [key, node] : root) {
    const toml::array* const list = node.as_array();
    if (key.str() != "volume" || list == nullptr || !list->is_homogeneous<toml::table>()) {
      return At(
          origin, node,
          fmt::format("'{}': the file may hold volumes only, each under its own [[volume]]", key.str()));
    }
    for (const toml::node& element : *list) {
      QUARRY_ASSIGN(out.emplace_back(), ReadVolume(origin, *element.as_table()));
    }
  }
  return out;
}

Status CheckTogether(const std::vector<DeclaredVolume>& volumes) {
  std::map<std::string, std::string> names, paths;
  for (const DeclaredVolume& volume : volumes) {
    const auto [other, fresh] = names.emplace(volume.name, volume.where);
    if (!fresh) {
      return Error(Code::kInvalidArgument, fmt::format("{}: volume '{}' is declared before, in {}",
                                                       volume.where, volume.name, other->second));
    }
    if (volume.mount_point.empty()) {
      continue;
    }
    const auto [user, free] = paths.emplace(volume.mount_point, volume.name);
    if (!free) {
      return Error(Code::kInvalidArgument, fmt::format("{}: '{}' is the mount point of volume '{}' too",
                                                       volume.where, volume.mount_point, user->second));
    }
  }
  return Ok();
}

}  // namespace quarry::ctl
