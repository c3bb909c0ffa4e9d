#include "csi/topology.h"

#include <algorithm>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "csi/fields.h"

namespace quarry::csi {
namespace {

constexpr size_t kMaxPart = 63;  // limit for a key's prefix, for its name, and for a value

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsAlphanumeric(char c) {
  return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z');
}

// The rule for a key's name and for a value.
bool IsPart(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPart && IsAlphanumeric(text.front()) &&
         IsAlphanumeric(text.back()) && std::ranges::all_of(text, [](char c) {
           return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

bool IsLabel(std::string_view label) {
  return !label.empty() && label.front() != '-' && label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
}

bool IsDomain(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPart &&
         std::ranges::all_of(text | std::views::split('.'),
                             [](const auto& label) { return IsLabel(std::string_view(label)); });
}

bool IsKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) {
    return IsPart(key);
  }
  return IsDomain(key.substr(0, slash)) && IsPart(key.substr(slash + 1));
}

std::string Lower(std::string text) {
  for (char& c : text) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

Status CheckPlaces(std::string_view field, std::string_view list, const std::vector<Segments>& places) {
  for (size_t i = 0; i < places.size(); ++i) {
    QUARRY_TRY(CheckSegments(fmt::format("{}.{}[{}].segments", field, list, i), places[i]));
  }
  return Ok();
}

}  // namespace

Status CheckDriverName(std::string_view name) {
  if (!IsDomain(name)) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("must be a domain name of at most {} lower-case letters, digits, '-' and '.', is '{}'",
                    kMaxPart, name));
  }
  return Ok();
}

Status CheckNodeId(std::string_view id) {
  if (!IsPart(id)) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("must be 1 to {} letters, digits, '-', '_' and '.', a letter or digit at both ends, "
                    "is '{}'",
                    kMaxPart, id));
  }
  return Ok();
}

Status CheckSegments(std::string_view field, const Segments& segments) {
  std::set<std::string> seen;
  for (const auto& [key, value] : segments) {
    if (!IsKey(key)) {
      return Invalid(
          field, fmt::format("'{}' is not a topology key ([domain/]name, each part at most {} characters)",
                             key, kMaxPart));
    }
    if (!IsPart(value)) {
      return Invalid(field,
                     fmt::format("the value of '{}' must be 1 to {} letters, digits, '-', '_' and '.', a "
                                 "letter or digit at both ends",
                                 key, kMaxPart));
    }
    if (!seen.insert(Lower(key)).second) {
      return Invalid(field, fmt::format("'{}' occurs twice, in different spellings", key));
    }
  }
  return Ok();
}

NodeTopology::NodeTopology(std::string_view driver_name, std::string node_id)
    : node_id_(std::move(node_id)), segments_{{fmt::format("{}/node", driver_name), node_id_}} {}

bool NodeTopology::Matches(const Segments& place) const {
  return std::ranges::all_of(place, [this](const auto& segment) {
    const auto ours = segments_.find(segment.first);
    return ours != segments_.end() && ours->second == segment.second;
  });
}

bool NodeTopology::IsJustHere(const std::vector<Segments>& requisite) const {
  return !requisite.empty() && std::ranges::all_of(requisite, [this](const Segments& place) {
    return !place.empty() && Matches(place);
  });
}

Status NodeTopology::CheckRequirement(std::string_view field, const std::vector<Segments>& requisite,
                                      const std::vector<Segments>& preferred) const {
  QUARRY_TRY(CheckPlaces(field, "requisite", requisite));
  QUARRY_TRY(CheckPlaces(field, "preferred", preferred));
  const auto matches = [this](const Segments& place) { return Matches(place); };
  if (!requisite.empty() && std::ranges::none_of(requisite, matches)) {
    return Error(Code::kNoSpace, fmt::format("{}.requisite: none of the places is this node ({}={})", field,
                                             segments_.begin()->first, segments_.begin()->second));
  }
  return Ok();
}

}  // namespace quarry::csi
