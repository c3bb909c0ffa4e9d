#include "daemon/settings/values.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/settings/store_values.h"
#include "lvm/names.h"

namespace quarry::daemon {

Error Wrong(std::string_view must, std::string_view text) {
  return Error(Code::kInvalidArgument, fmt::format("must be {}, is '{}'", must, text));
}

Result<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Wrong("a whole number", text);
  }
  return value;
}

Result<bool> ParseBool(std::string_view text) {
  return ParseWord<bool>({{"true", true}, {"false", false}}, text);
}

Result<LogLevel> ParseLogLevel(std::string_view text) {
  return ParseWord<LogLevel>({{"debug", LogLevel::kDebug},
                              {"info", LogLevel::kInfo},
                              {"warning", LogLevel::kWarning},
                              {"error", LogLevel::kError}},
                             text);
}

Result<LogFormat> ParseLogFormat(std::string_view text) {
  return ParseWord<LogFormat>({{"json", LogFormat::kJson}, {"text", LogFormat::kText}}, text);
}

Result<csi::Mode> ParseMode(std::string_view text) {
  using csi::Mode;
  return ParseWord<Mode>({{"all", Mode::kAll}, {"controller", Mode::kController}, {"node", Mode::kNode}},
                         text);
}

Result<AbsolutePath> ParseEndpoint(std::string_view text) {
  static constexpr std::string_view kScheme = "unix://";
  static constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (!text.starts_with(kScheme) || !text.substr(kScheme.size()).starts_with('/')) {
    return Wrong("unix:///<directory>/<name>.sock", text);
  }
  QUARRY_ASSIGN(AbsolutePath path, AbsolutePath::Parse(text.substr(kScheme.size())));
  if (!path.Name().ends_with(".sock") || path.Name() == ".sock") {
    return Wrong("a path that ends in <name>.sock", text);
  }
  if (path.str().size() > kLongest) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the path of a unix socket must be at most {} bytes, is {}: {}", kLongest,
                             path.str().size(), path.str()));
  }
  return path;
}

Result<MetricsAddress> ParseMetricsAddress(std::string_view text) {
  MetricsAddress out{.text = std::string(text), .socket = {}, .host = "", .port = 0};
  if (text.starts_with("unix:")) {
    QUARRY_ASSIGN(out.socket, ParseEndpoint(text));
    return out;
  }
  static constexpr std::string_view kMust =
      "ADDRESS:PORT, as in 127.0.0.1:9808 or [::1]:9808, or unix:///<directory>/<name>.sock";
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  out.host = bracketed ? host.substr(1, host.size() - 2) : host;
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  if (colon == std::string_view::npos ||
      inet_pton(bracketed ? AF_INET6 : AF_INET, out.host.c_str(), parsed.data()) != 1) {
    return Wrong(kMust, text);
  }
  const auto port = ParseNumber(text.substr(colon + 1));
  if (!port.has_value() || *port == 0 || *port > std::numeric_limits<uint16_t>::max()) {
    return Wrong(kMust, text);
  }
  out.port = static_cast<int>(*port);
  return out;
}

Result<PoolDraft> ParsePoolText(std::string origin, std::string_view text) {
  PoolDraft draft{.origin = std::move(origin), .name = "", .group = "", .extras = {}};
  const std::string_view whole = text;
  for (bool first = true, more = true; more; first = false) {
    const std::string_view part = text.substr(0, text.find(','));
    more = part.size() < text.size();
    text.remove_prefix(part.size() + (more ? 1 : 0));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return Wrong("NAME=VG[,key=value...]", whole).Context(draft.origin);
    }
    std::string key(part.substr(0, equals));
    std::string value(part.substr(equals + 1));
    if (first) {
      draft.name = std::move(key);
      draft.group = std::move(value);
    } else {
      draft.extras.emplace_back(std::move(key), std::move(value));
    }
  }
  return draft;
}

namespace {

constexpr std::string_view kSharePrefix = "share.";

// "share.raid1" = "40%".
Status ApplyShare(engine::PoolConfig& pool, std::string_view key, std::string_view value) {
  QUARRY_ASSIGN(const lvm::VolumeType type,
                lvm::ParseVolumeType(key.substr(kSharePrefix.size())).Context(key));
  const std::string_view digits = value.substr(0, value.size() - (value.ends_with('%') ? 1 : 0));
  const auto percent = ParseNumber(digits);
  if (!percent.has_value() || *percent > 100) {
    return Wrong("a percentage from 0% to 100%", value).Context(key);
  }
  pool.shares[type] = static_cast<uint32_t>(*percent);
  return Ok();
}

// "ephemeral" = "20GiB" or "off", and the keys that begin with "ephemeral-".
Status ApplyEphemeral(engine::EphemeralLimits& limits, std::string_view key, std::string_view value) {
  if (key == "ephemeral") {
    limits.most = Bytes{};
    if (value != "off") {
      QUARRY_ASSIGN(limits.most, ParseSize(value));
    }
    return Ok();
  }
  if (key == "ephemeral-total") {
    QUARRY_ASSIGN(limits.total, ParseSize(value));
    return limits.total > Bytes{0} ? Ok() : Status(Wrong("more than 0", value));
  }
  if (key == "ephemeral-max-count") {
    QUARRY_ASSIGN(limits.most_volumes, ParseNumber(value));
    return limits.most_volumes > 0 ? Ok() : Status(Wrong("more than 0", value));
  }
  limits.attributes.clear();
  std::set<std::string> known = engine::EphemeralLimits::UsualAttributes();
  known.emplace("sync");
  while (!value.empty()) {
    const std::string_view word = value.substr(0, value.find(' '));
    value.remove_prefix(std::min(value.size(), word.size() + 1));
    if (!known.contains(std::string(word))) {
      return Wrong(fmt::format("words out of {}, separated by single spaces", fmt::join(known, ", ")), word);
    }
    limits.attributes.emplace(word);
  }
  return Ok();
}

Status ApplyPoolKey(engine::PoolConfig& pool, const std::string& key, const std::string& value) {
  if (key == "reserve") {
    QUARRY_ASSIGN(pool.reserve, ParseSize(value).Context(key));
    return Ok();
  }
  if (key == "device" || key == "exclude") {
    QUARRY_ASSIGN(engine::DeviceRule rule, ParseRule({key, {{"path", value}}}));
    (key == "device" ? pool.devices : pool.exclude).push_back(std::move(rule));
    return Ok();
  }
  if (key == "foreign") {
    if (value != "list" && value != "hide") {
      return Wrong("'list' or 'hide'", value).Context(key);
    }
    pool.list_foreign = value == "list";
    return Ok();
  }
  if (key.starts_with(kStorePrefix)) {
    QUARRY_ASSIGN(engine::StoreConfig store, ParseStore(pool.name, key, value));
    if (std::ranges::find(pool.stores, store.name, &engine::StoreConfig::name) != pool.stores.end()) {
      return Wrong("a name that the pool has once", store.name).Context(key);
    }
    pool.stores.push_back(std::move(store));
    std::ranges::sort(pool.stores, {}, &engine::StoreConfig::name);
    return Ok();
  }
  if (key.starts_with(kSharePrefix)) {
    return ApplyShare(pool, key, value);
  }
  if (key == "ephemeral" || key == "ephemeral-total" || key == "ephemeral-max-count" ||
      key == "ephemeral-attributes") {
    return ApplyEphemeral(pool.ephemeral, key, value).Context(key);
  }
  return Error(
      Code::kInvalidArgument,
      fmt::format("unknown key '{}'; known: reserve, device, exclude, foreign, share.TYPE, store.NAME, "
                  "ephemeral, ephemeral-total, ephemeral-max-count, ephemeral-attributes",
                  key));
}

// LVM's rule for names of volume groups (lvm(8), "VALID NAMES").
bool IsGroupName(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '_' || c == '.' || c == '-';
  };
  return !name.empty() && name.size() < 127 && name.front() != '-' && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), fits);
}

Status CheckShares(const engine::PoolConfig& pool) {
  uint32_t sum = 0;
  for (const auto& [unused, percent] : pool.shares) {
    sum += percent;
  }
  if (sum > 100) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the shares add up to {}%, at most 100% can be given", sum));
  }
  return Ok();
}

}  // namespace

Result<engine::PoolConfig> ParsePool(const PoolDraft& draft) {
  engine::PoolConfig pool;
  pool.name = draft.name;
  pool.group = draft.group;
  if (!lvm::IsPoolName(pool.name)) {
    return Wrong("1 to 32 letters, digits, '-', '_' and '.', the first a letter or digit", pool.name)
        .Context(draft.origin + ": name");
  }
  if (!IsGroupName(pool.group)) {
    return Wrong("the name of a volume group", pool.group).Context(draft.origin + ": vg");
  }
  for (const auto& [key, value] : draft.extras) {
    QUARRY_TRY(ApplyPoolKey(pool, key, value).Context(draft.origin));
  }
  for (const RuleDraft& rule : draft.devices) {
    QUARRY_ASSIGN(engine::DeviceRule parsed, ParseRule(rule).Context(draft.origin));
    pool.devices.push_back(std::move(parsed));
  }
  for (const RuleDraft& rule : draft.excludes) {
    QUARRY_ASSIGN(engine::DeviceRule parsed, ParseRule(rule).Context(draft.origin));
    if (parsed.wipe_ok) {
      return Error(
                 Code::kInvalidArgument,
                 fmt::format("{}: wipe-ok: is allowed only in rules of devices, not of exclude", rule.where))
          .Context(draft.origin);
    }
    pool.exclude.push_back(std::move(parsed));
  }
  QUARRY_TRY(CheckShares(pool).Context(draft.origin));
  return pool;
}

Status CheckPools(const std::vector<engine::PoolConfig>& pools) {
  for (size_t i = 0; i < pools.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (pools[i].name == pools[k].name) {
        return Error(Code::kInvalidArgument, fmt::format("pool '{}' is configured twice", pools[i].name));
      }
      if (pools[i].group == pools[k].group) {
        return Error(Code::kInvalidArgument,
                     fmt::format("pools '{}' and '{}' name the same volume group '{}'", pools[k].name,
                                 pools[i].name, pools[i].group));
      }
    }
  }
  return Ok();
}

}  // namespace quarry::daemon
