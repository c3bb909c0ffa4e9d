// The configuration file (TOML), as a layer of settings. An unknown key is refused by name and line: a typing
// error in storage settings must not silently mean the default.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/unique_fd.h"
#include "daemon/settings/options.h"

namespace quarry::daemon {
namespace {

Error At(const std::string& origin, const toml::node& node, std::string_view what) {
  return Error(Code::kInvalidArgument,
               fmt::format("{}: line {}: {}", origin, node.source().begin.line, what));
}

Result<std::string> ScalarText(const std::string& origin, std::string_view key, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    return *text;
  }
  if (const auto number = node.value_exact<int64_t>()) {
    return fmt::format("{}", *number);
  }
  if (const auto truth = node.value_exact<bool>()) {
    return std::string(*truth ? "true" : "false");
  }
  return At(origin, node, fmt::format("{}: must be a string, a whole number or a boolean", key));
}

// devices = ["/dev/disk/by-id/…", { model = "INTEL*", min-size = "1TiB" }]; exclude has the same form.
Result<std::vector<RuleDraft>> ReadRules(const std::string& origin, std::string_view key,
                                         const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    return At(origin, node, fmt::format("{}: must be a list of paths and rules", key));
  }
  std::vector<RuleDraft> rules;
  for (const toml::node& entry : *list) {
    RuleDraft& rule = rules.emplace_back();
    rule.where = fmt::format("{}[{}]", key, rules.size());
    const toml::table* conditions = entry.as_table();
    if (conditions == nullptr) {
      QUARRY_ASSIGN(std::string path, ScalarText(origin, rule.where, entry));
      rule.conditions.emplace_back("path", std::move(path));
      continue;
    }
    for (const auto& [condition, value] : *conditions) {
      QUARRY_ASSIGN(std::string text,
                    ScalarText(origin, fmt::format("{}: {}", rule.where, condition.str()), value));
      rule.conditions.emplace_back(condition.str(), std::move(text));
    }
  }
  return rules;
}

// share = { raid1 = "40%" }, store.fast = "500GiB type=raid1". The command line writes each entry as a key of
// its own.
Status ReadEntries(const std::string& origin, std::string_view key, const toml::node& node,
                   PoolDraft& draft) {
  const toml::table* entries = node.as_table();
  if (entries == nullptr) {
    return At(
        origin, node,
        fmt::format("{}: must be a table, as in {}", key,
                    key == "share" ? "share = { raid1 = \"40%\" }" : "store.NAME = \"500GiB type=raid1\""));
  }
  for (const auto& [name, value] : *entries) {
    QUARRY_ASSIGN(std::string text, ScalarText(origin, name.str(), value));
    draft.extras.emplace_back(fmt::format("{}.{}", key, name.str()), std::move(text));
  }
  return Ok();
}

Result<PoolDraft> ReadPool(const std::string& origin, size_t number, const toml::table& table) {
  PoolDraft draft{
      .origin = fmt::format("{}: [[pool]] {}", origin, number), .name = "", .group = "", .extras = {}};
  for (const auto& [key, node] : table) {
    if (key.str() == "share" || key.str() == "store") {
      QUARRY_TRY(ReadEntries(origin, key.str(), node, draft));
      continue;
    }
    if (key.str() == "devices" || key.str() == "exclude") {
      QUARRY_ASSIGN((key.str() == "devices" ? draft.devices : draft.excludes),
                    ReadRules(origin, key.str(), node));
      continue;
    }
    QUARRY_ASSIGN(std::string text, ScalarText(origin, key.str(), node));
    if (key.str() == "name") {
      draft.name = std::move(text);
    } else if (key.str() == "vg") {
      draft.group = std::move(text);
    } else {
      draft.extras.emplace_back(key.str(), std::move(text));
    }
  }
  return draft;
}

Result<std::vector<PoolDraft>> ReadPools(const std::string& origin, const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr || !array->is_homogeneous<toml::table>()) {
    return At(origin, node, "pool: must be a list of tables, each under its own [[pool]]");
  }
  std::vector<PoolDraft> pools;
  for (const toml::node& element : *array) {
    QUARRY_ASSIGN(PoolDraft draft, ReadPool(origin, pools.size() + 1, *element.as_table()));
    pools.push_back(std::move(draft));
  }
  return pools;
}

bool IsSetting(std::string_view key) {
  return std::ranges::any_of(Settings(), [&](const Setting& setting) { return setting.name == key; });
}

}  // namespace

Result<Layer> ParseConfig(std::string_view text, const std::string& origin) {
  toml::table root;
  try {
    root = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: line {}: {}", origin, error.source().begin.line, error.description()));
  }
  Layer layer;
  for (const auto& [key, node] : root) {
    if (key.str() == "pool") {
      QUARRY_ASSIGN(layer.pools, ReadPools(origin, node));
    } else if (IsSetting(key.str())) {
      QUARRY_ASSIGN(std::string value, ScalarText(origin, key.str(), node));
      layer.settings[std::string(key.str())] = {fmt::format("{}: {}", origin, key.str()), std::move(value)};
    } else {
      return At(origin, node, fmt::format("unknown key '{}'", key.str()));
    }
  }
  return layer;
}

Result<Layer> ReadConfigFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(path);
  }
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got == 0) {
      return ParseConfig(text, path);
    }
    if (got < 0 && errno != EINTR) {
      return ErrnoError(path);
    }
    text.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
}

}  // namespace quarry::daemon
