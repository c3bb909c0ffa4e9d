// Parses rules for disks.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "daemon/settings/values.h"

namespace quarry::daemon {
namespace {

// The kernel may give its device names to other disks at each boot, so a pattern of kernel names is refused.
constexpr std::string_view kStableNames = "/dev/disk/by-";

Status ApplyPath(engine::DeviceRule& rule, const std::string& text) {
  if (engine::IsPattern(text) && !text.starts_with(kStableNames)) {
    return Wrong(
        fmt::format("a pattern of links below {}…, which stay the same across reboots", kStableNames), text);
  }
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(text));
  rule.path = path.str();
  return Ok();
}

Status ApplyText(std::string& place, const std::string& text) {
  if (text.empty()) {
    return Error(Code::kInvalidArgument, "must not be empty");
  }
  place = text;
  return Ok();
}

Status ApplyTransport(engine::DeviceRule& rule, const std::string& text) {
  if (std::ranges::find(udev::Transports(), text) == udev::Transports().end()) {
    return Wrong(fmt::format("one of {}", fmt::join(udev::Transports(), ", ")), text);
  }
  rule.transport = text;
  return Ok();
}

Status ApplySize(Bytes& place, const std::string& text) {
  QUARRY_ASSIGN(place, ParseSize(text));
  return place.value > 0 ? Ok() : Status(Error(Code::kInvalidArgument, "must not be 0"));
}

Status ApplyCondition(engine::DeviceRule& rule, const std::string& key, const std::string& value) {
  if (key == "path") {
    return ApplyPath(rule, value);
  }
  if (key == "model") {
    return ApplyText(rule.model, value);
  }
  if (key == "serial") {
    return ApplyText(rule.serial, value);
  }
  if (key == "transport") {
    return ApplyTransport(rule, value);
  }
  if (key == "min-size") {
    return ApplySize(rule.min_size, value);
  }
  if (key == "max-size") {
    return ApplySize(rule.max_size, value);
  }
  if (key == "rotational") {
    QUARRY_ASSIGN(rule.rotational, ParseBool(value));
    return Ok();
  }
  if (key == "wipe-ok") {
    QUARRY_ASSIGN(rule.wipe_ok, ParseBool(value));
    return Ok();
  }
  return Error(Code::kInvalidArgument,
               "unknown key; known: path, model, serial, transport, min-size, max-size, rotational, wipe-ok");
}

}  // namespace

Result<engine::DeviceRule> ParseRule(const RuleDraft& draft) {
  engine::DeviceRule rule;
  // A rule written as a bare path has no key to name in an error.
  const bool bare = draft.conditions.size() == 1 && draft.conditions.front().first == "path";
  for (const auto& [key, value] : draft.conditions) {
    QUARRY_TRY(ApplyCondition(rule, key, value)
                   .Context(bare ? draft.where : fmt::format("{}: {}", draft.where, key)));
  }
  engine::DeviceRule conditions = rule;
  conditions.wipe_ok = false;
  if (conditions == engine::DeviceRule()) {
    return Error(Code::kInvalidArgument, fmt::format("{}: must have at least one condition", draft.where));
  }
  if (rule.max_size.value > 0 && rule.max_size < rule.min_size) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: max-size: must not be below min-size", draft.where));
  }
  return rule;
}

}  // namespace quarry::daemon
