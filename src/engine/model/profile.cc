#include "engine/model/profile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::engine {
namespace {

constexpr std::string_view kForeignPrefix = "csi.storage.k8s.io/";

Error Bad(std::string_view key, std::string_view value, std::string_view expected) {
  return Error(Code::kInvalidArgument,
               fmt::format("parameters['{}']: must be {}, is '{}'", key, expected, value));
}

Result<uint32_t> ParseCount(std::string_view key, std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    return Bad(key, text, "a whole number of at least 1");
  }
  return value;
}

Result<Bytes> ParseKiB(std::string_view key, std::string_view text) {
  QUARRY_ASSIGN(const uint32_t kib, ParseCount(key, text));
  return Bytes{uint64_t{kib} * kKiB.value};
}

Result<std::string> ParsePool(std::string_view text) {
  return text.empty() ? Bad("pool", text, "the name of a pool") : Result<std::string>(text);
}

// "thin" is no layout, and handled before.
Result<lvm::VolumeType> ParseType(std::string_view text) {
  auto type = lvm::ParseVolumeType(text);
  return type.has_value() ? std::move(type)
                          : std::move(type.error()).Context("parameters['type']: must be thin, or a layout");
}

Result<std::string> ParseStoreName(std::string_view text) {
  return lvm::IsPoolName(text) ? Result<std::string>(text) : Bad("store", text, "the name of a thin store");
}

Result<bool> ParseIntegrity(std::string_view text) {
  const bool wanted = text == "true";
  return wanted || text == "false" ? wanted : Result<bool>(Bad("integrity", text, "'true' or 'false'"));
}

// True: the first sync may be skipped.
Result<bool> ParseSync(std::string_view text) {
  const bool skip = text == "skip";
  return skip || text == "full" ? skip : Result<bool>(Bad("sync", text, "'full' or 'skip'"));
}

// True: a source that is in use may be copied.
Result<bool> ParseInUse(std::string_view text) {
  const bool copy = text == "cow";
  return copy || text == "refuse" ? copy : Result<bool>(Bad("inuse", text, "'refuse' or 'cow'"));
}

Result<ErasePolicy> ParseErase(std::string_view text) {
  for (const ErasePolicy policy : {ErasePolicy::kZero, ErasePolicy::kDiscard, ErasePolicy::kNone}) {
    if (EraseName(policy) == text) {
      return policy;
    }
  }
  return Bad("erase", text, "'zero', 'discard' or 'none'");
}

Result<std::string> ParseMkfsOptions(std::string_view text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  if (!printable || text.size() > 512) {
    return Error(Code::kInvalidArgument,
                 "parameters['mkfsoptions']: must be at most 512 printable ASCII characters");
  }
  return std::string(text);
}

// A parse in progress: the values parsed so far.
struct Draft {
  std::string pool;
  bool thin = false;
  std::string store;
  lvm::GeometryRequest geometry;
  ErasePolicy erase = ErasePolicy::kZero;
  bool skip_sync = false;
  std::string mkfs_options;
  bool copy_in_use = false;
};

// Puts a parsed value in its place.
template <typename To, typename From>
Status Set(To& to, Result<From> parsed) {
  QUARRY_ASSIGN(to, std::move(parsed));
  return Ok();
}

// A thin volume has the layout of its store, and other volumes have no store.
Status CheckThin(const Draft& draft) {
  if (!draft.thin) {
    return draft.store.empty() ? Ok()
                               : Status(Error(Code::kInvalidArgument,
                                              "parameters['store']: only volumes with type=thin have one"));
  }
  const lvm::GeometryRequest& asked = draft.geometry;
  const std::string_view of_layout = asked.mirrors > 0             ? "mirrors"
                                     : asked.stripes > 0           ? "stripes"
                                     : asked.stripe_size > Bytes{} ? "stripesize"
                                     : asked.region_size > Bytes{} ? "regionsize"
                                     : asked.integrity             ? "integrity"
                                     : draft.skip_sync             ? "sync"
                                                                   : "";
  return of_layout.empty()
             ? Ok()
             : Status(Error(
                   Code::kInvalidArgument,
                   fmt::format("parameters['{}']: a volume with type=thin has the layout of its store, which "
                               "the configuration of the pool says",
                               of_layout)));
}

using Setter = Status (*)(Draft&, std::string_view);

const std::map<std::string_view, Setter>& Setters() {
  static const std::map<std::string_view, Setter> kSetters = {
      {"pool", [](Draft& d, std::string_view v) { return Set(d.pool, ParsePool(v)); }},
      {"type",
       [](Draft& d, std::string_view v) {
         d.thin = v == Profile::kThinType;
         return d.thin ? Ok() : Set(d.geometry.type, ParseType(v));
       }},
      {"store", [](Draft& d, std::string_view v) { return Set(d.store, ParseStoreName(v)); }},
      {"mirrors",
       [](Draft& d, std::string_view v) { return Set(d.geometry.mirrors, ParseCount("mirrors", v)); }},
      {"stripes",
       [](Draft& d, std::string_view v) { return Set(d.geometry.stripes, ParseCount("stripes", v)); }},
      {"stripesize",
       [](Draft& d, std::string_view v) { return Set(d.geometry.stripe_size, ParseKiB("stripesize", v)); }},
      {"regionsize",
       [](Draft& d, std::string_view v) { return Set(d.geometry.region_size, ParseKiB("regionsize", v)); }},
      {"integrity",
       [](Draft& d, std::string_view v) { return Set(d.geometry.integrity, ParseIntegrity(v)); }},
      {"sync", [](Draft& d, std::string_view v) { return Set(d.skip_sync, ParseSync(v)); }},
      {"inuse", [](Draft& d, std::string_view v) { return Set(d.copy_in_use, ParseInUse(v)); }},
      {"erase", [](Draft& d, std::string_view v) { return Set(d.erase, ParseErase(v)); }},
      {"mkfsoptions", [](Draft& d, std::string_view v) { return Set(d.mkfs_options, ParseMkfsOptions(v)); }},
  };
  return kSetters;
}

bool IsOfGeometry(std::string_view key) {
  constexpr std::array<std::string_view, 7> kKeys = {"type",       "mirrors",   "stripes", "stripesize",
                                                     "regionsize", "integrity", "store"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

std::map<std::string, std::string> SplitLines(std::string_view text) {
  std::map<std::string, std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t equals = line.find('=');
    lines.emplace(line.substr(0, equals),
                  equals == std::string_view::npos ? std::string_view() : line.substr(equals + 1));
  }
  return lines;
}

}  // namespace

std::string_view EraseName(ErasePolicy policy) {
  switch (policy) {
    case ErasePolicy::kZero:
      return "zero";
    case ErasePolicy::kDiscard:
      return "discard";
    case ErasePolicy::kNone:
      return "none";
  }
  return "zero";
}

Result<Profile> Profile::Parse(const Parameters& parameters, std::string_view default_pool) {
  Draft draft;
  draft.pool = default_pool;
  for (const auto& [key, value] : parameters) {
    if (key.starts_with(kForeignPrefix)) {
      continue;
    }
    const auto setter = Setters().find(key);
    if (setter == Setters().end()) {
      return Error(Code::kInvalidArgument, fmt::format("parameters['{}']: no such parameter; there are {}",
                                                       key, fmt::join(std::views::keys(Setters()), ", ")));
    }
    QUARRY_TRY(setter->second(draft, value));
  }
  QUARRY_TRY(CheckThin(draft));
  QUARRY_ASSIGN(lvm::Geometry geometry, lvm::Geometry::Make(draft.geometry).Context("parameters"));
  return Profile{.pool = std::move(draft.pool),
                 .thin = draft.thin,
                 .store = std::move(draft.store),
                 .geometry = std::move(geometry),
                 .erase = draft.erase,
                 .skip_sync = draft.skip_sync,
                 .mkfs_options = std::move(draft.mkfs_options),
                 .copy_in_use = draft.copy_in_use};
}

Result<Profile> Profile::ParseOver(const Parameters& parameters, const Profile& base) {
  Parameters all = SplitLines(base.Canonical());
  std::erase_if(all, [&](const auto& line) {
    return base.unknown.contains(line.first) || (parameters.contains("type") && IsOfGeometry(line.first));
  });
  for (const auto& [key, value] : parameters) {
    all.insert_or_assign(key, value);
  }
  return Parse(all, base.pool);
}

std::string Profile::Canonical() const {
  std::map<std::string_view, std::string> lines(unknown.begin(), unknown.end());
  lines["pool"] = pool;
  lines["type"] = TypeName();
  if (!store.empty()) {
    lines["store"] = store;
  }
  if (geometry.mirrors() > 0) {
    lines["mirrors"] = fmt::format("{}", geometry.mirrors());
  }
  if (geometry.data_legs() > 1) {
    lines["stripes"] = fmt::format("{}", geometry.data_legs());
  }
  if (geometry.stripe_size() > Bytes{0}) {
    lines["stripesize"] = fmt::format("{}", geometry.stripe_size().value / kKiB.value);
  }
  if (geometry.region_size() > Bytes{0}) {
    lines["regionsize"] = fmt::format("{}", geometry.region_size().value / kKiB.value);
  }
  if (geometry.integrity()) {
    lines["integrity"] = "true";
  }
  lines["erase"] = EraseName(erase);
  lines["sync"] = skip_sync ? "skip" : "full";
  if (!mkfs_options.empty()) {
    lines["mkfsoptions"] = mkfs_options;
  }
  std::string text;
  for (const auto& [key, value] : lines) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "\n", key, value);
  }
  return text;
}

Result<Profile> Profile::FromCanonical(std::string_view text) {
  Parameters known = SplitLines(text);
  std::map<std::string, std::string> unknown;
  std::erase_if(known, [&](const auto& line) {
    return !Setters().contains(line.first) && unknown.insert(line).second;
  });
  auto profile = Parse(known, "");
  if (!profile.has_value()) {
    return std::move(profile.error()).Context("recorded profile").As(Code::kCorrupt);
  }
  profile->unknown = std::move(unknown);
  return profile;
}

std::optional<std::string> Difference(std::string_view existing, const Profile& requested) {
  auto recorded = Profile::FromCanonical(existing);
  if (recorded.has_value()) {
    recorded->unknown.clear();
  }
  auto was = SplitLines(recorded.has_value() ? recorded->Canonical() : std::string(existing));
  auto is = SplitLines(requested.Canonical());
  if (requested.thin && requested.store.empty()) {
    was.erase("store");  // any store will do
  }
  const auto value = [](const std::map<std::string, std::string>& lines, const std::string& key) {
    const auto found = lines.find(key);
    return found == lines.end() ? std::string("not set") : fmt::format("'{}'", found->second);
  };
  const auto describe = [&](const std::string& key) {
    return fmt::format("parameter '{}' is {} on the existing volume, {} in the request", key, value(was, key),
                       value(is, key));
  };
  if (value(was, "type") != value(is, "type")) {
    return describe("type");  // most other differences follow from it
  }
  for (const auto* side : {&was, &is}) {
    for (const auto& [key, unused] : *side) {
      if (value(was, key) != value(is, key)) {
        return describe(key);
      }
    }
  }
  return std::nullopt;
}

}  // namespace quarry::engine
