#include "engine/model/device_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quarry::engine {
namespace {

bool Fits(const std::string& pattern, const std::string& text, int flags = 0) {
  return pattern.empty() || fnmatch(pattern.c_str(), text.c_str(), flags) == 0;
}

bool PathFits(const std::string& path, const udev::Disk& disk) {
  if (path.empty()) {
    return true;
  }
  if (!IsPattern(path)) {
    return path == disk.node || std::ranges::find(disk.links, path) != disk.links.end();
  }
  return std::ranges::any_of(disk.links,
                             [&](const std::string& link) { return Fits(path, link, FNM_PATHNAME); });
}

}  // namespace

bool IsPattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

bool DeviceRule::IsExplicit() const {
  const DeviceRule alone{.path = path, .wipe_ok = wipe_ok};
  return !path.empty() && !IsPattern(path) && *this == alone;
}

std::string DeviceRule::Text() const {
  const DeviceRule alone{.path = path};
  if (*this == alone) {
    return path;
  }
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) {
      parts.push_back(fmt::format("{}={}", key, value));
    }
  };
  add("path", path);
  add("model", model);
  add("serial", serial);
  add("transport", transport);
  add("min-size", min_size.value == 0 ? "" : HumanBytes(min_size));
  add("max-size", max_size.value == 0 ? "" : HumanBytes(max_size));
  add("rotational", !rotational.has_value() ? "" : *rotational ? "true" : "false");
  add("wipe-ok", wipe_ok ? "true" : "");
  return fmt::format("{}", fmt::join(parts, ", "));
}

RuleMatch Match(const DeviceRule& rule, const udev::Disk& disk) {
  const bool named = !disk.made_up || rule.transport == disk.transport || rule.IsExplicit();
  const bool fits = named && PathFits(rule.path, disk) && Fits(rule.model, disk.model) &&
                    Fits(rule.serial, disk.serial) &&
                    (rule.transport.empty() || rule.transport == disk.transport) &&
                    (!rule.rotational.has_value() || *rule.rotational == disk.rotational);
  if (!fits) {
    return {};
  }
  if (rule.min_size.value != 0 && disk.size < rule.min_size) {
    return {false, fmt::format("smaller than {}", HumanBytes(rule.min_size))};
  }
  if (rule.max_size.value != 0 && disk.size > rule.max_size) {
    return {false, fmt::format("larger than {}", HumanBytes(rule.max_size))};
  }
  return {true, ""};
}

}  // namespace quarry::engine
