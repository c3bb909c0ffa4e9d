// Parses rules for disks.
#include <algorithm>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "daemon/settings/values.h"

namespace quarry::daemon {
namespace {

using engine::DeviceRule;

// The kernel may give its device names to other disks at each boot, so a pattern of kernel names is refused.
constexpr std::string_view kStableNames = "/dev/disk/by-";

Status ApplyPath(DeviceRule& rule, const std::string& text) {
  if (engine::IsPattern(text) && !text.starts_with(kStableNames)) {
    return Wrong(
        fmt::format("a pattern of links below {}…, which stay the same across reboots", kStableNames), text);
  }
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(text));
  rule.path = path.str();
  return Ok();
}

template <auto kPlace>
Status ApplyText(DeviceRule& rule, const std::string& text) {
  if (text.empty()) {
    return Error(Code::kInvalidArgument, "must not be empty");
  }
  rule.*kPlace = text;
  return Ok();
}

Status ApplyTransport(DeviceRule& rule, const std::string& text) {
  if (std::ranges::find(udev::Transports(), text) == udev::Transports().end()) {
    return Wrong(fmt::format("one of {}", fmt::join(udev::Transports(), ", ")), text);
  }
  rule.transport = text;
  return Ok();
}

template <auto kPlace>
Status ApplySize(DeviceRule& rule, const std::string& text) {
  QUARRY_ASSIGN(rule.*kPlace, ParseSize(text));
  return (rule.*kPlace).value > 0 ? Ok() : Status(Error(Code::kInvalidArgument, "must not be 0"));
}

template <auto kPlace>
Status ApplyBool(DeviceRule& rule, const std::string& text) {
  QUARRY_ASSIGN(rule.*kPlace, ParseBool(text));
  return Ok();
}

constexpr std::pair<std::string_view, Status (*)(DeviceRule&, const std::string&)> kKeys[] = {
    {"path", &ApplyPath},
    {"model", &ApplyText<&DeviceRule::model>},
    {"serial", &ApplyText<&DeviceRule::serial>},
    {"transport", &ApplyTransport},
    {"min-size", &ApplySize<&DeviceRule::min_size>},
    {"max-size", &ApplySize<&DeviceRule::max_size>},
    {"rotational", &ApplyBool<&DeviceRule::rotational>},
    {"wipe-ok", &ApplyBool<&DeviceRule::wipe_ok>},
};

Status ApplyKey(DeviceRule& rule, const std::string& key, const std::string& value) {
  for (const auto& [known, apply] : kKeys) {
    if (key == known) {
      return apply(rule, value);
    }
  }
  return Error(Code::kInvalidArgument,
               fmt::format("unknown key; known: {}", fmt::join(kKeys | std::views::keys, ", ")));
}

}  // namespace

Result<engine::DeviceRule> ParseRule(const RuleDraft& draft) {
  DeviceRule rule;
  // A rule written as a bare path has no key to name in an error.
  const bool bare = draft.conditions.size() == 1 && draft.conditions.front().first == "path";
  for (const auto& [key, value] : draft.conditions) {
    QUARRY_TRY(
        ApplyKey(rule, key, value).Context(bare ? draft.where : fmt::format("{}: {}", draft.where, key)));
  }
  DeviceRule conditions = rule;
  conditions.wipe_ok = false;
  if (conditions == DeviceRule()) {
    return Error(Code::kInvalidArgument, fmt::format("{}: must have at least one condition", draft.where));
  }
  if (rule.max_size.value > 0 && rule.max_size < rule.min_size) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: max-size: must not be below min-size", draft.where));
  }
  return rule;
}

}  // namespace quarry::daemon
