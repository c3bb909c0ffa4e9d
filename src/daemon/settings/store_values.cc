#include "daemon/settings/store_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "daemon/settings/values.h"
#include "engine/model/profile.h"
#include "engine/model/thin_space.h"
#include "lvm/names.h"

namespace quarry::daemon {
namespace {

using engine::StoreConfig;

constexpr Bytes kDefaultChunk{128 * kKiB.value};
constexpr std::array<std::string_view, 5> kLayoutWords = {"type", "stripes", "mirrors", "stripesize",
                                                          "regionsize"};
constexpr std::array<std::string_view, 3> kThresholds = {"warn", "grow", "refuse"};
constexpr uint32_t kMostOvercommit = 100;

bool IsOneOf(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != words.end();
}

Result<uint32_t> ParsePercent(std::string_view value) {
  const Result<uint64_t> number = ParseNumber(value.substr(0, value.size() - (value.ends_with('%') ? 1 : 0)));
  if (!value.ends_with('%') || !number.has_value() || *number == 0 || *number >= 100) {
    return Wrong("a percentage from 1% to 99%", value);
  }
  return static_cast<uint32_t>(*number);
}

// "1.5" is 150.
Result<uint32_t> ParseOvercommit(std::string_view value) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), number, std::chars_format::fixed);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= 1) ||
      number > kMostOvercommit) {
    return Wrong(fmt::format("a number from 1 to {}, such as 1.5", kMostOvercommit), value);
  }
  return static_cast<uint32_t>(number * 100 + 0.5);
}

Status ApplyWord(StoreConfig& store, std::string_view word, std::string_view value) {
  if (word == "chunk") {
    QUARRY_ASSIGN(store.chunk, ParseSize(value));
    const bool fits = store.chunk >= engine::kLeastChunk && store.chunk <= engine::kMostChunk &&
                      std::has_single_bit(store.chunk.value);
    return fits ? Ok() : Status(Wrong("64KiB, 128KiB, 256KiB, 512KiB or 1MiB", value));
  }
  if (word == "max") {
    QUARRY_ASSIGN(store.most, ParseSize(value));
    return store.most >= store.size ? Ok() : Status(Wrong("at least the size of the store", value));
  }
  if (word == "overcommit") {
    QUARRY_ASSIGN(store.overcommit, ParseOvercommit(value));
    return Ok();
  }
  QUARRY_ASSIGN((word == "warn"   ? store.warn
                 : word == "grow" ? store.grow
                                  : store.refuse),
                ParsePercent(value));
  return Ok();
}

// What the words mean only together.
Status Check(const StoreConfig& store, const std::set<std::string, std::less<>>& given) {
  if (store.overcommit == 100) {
    for (const std::string_view word : kThresholds) {
      if (given.contains(word)) {
        return Wrong("given only with an overcommit above 1: no write can find this store full", word);
      }
    }
  }
  const bool grows = store.most > Bytes{};
  if (store.warn > store.refuse || (grows && (store.warn > store.grow || store.grow > store.refuse))) {
    return Wrong("ascending",
                 fmt::format("warn={}% grow={}% refuse={}%", store.warn, store.grow, store.refuse));
  }
  if (given.contains("grow") && !grows) {
    return Wrong("given only with max, which says up to which size the store grows", "grow");
  }
  const Bytes most = std::max(store.size, store.most);
  QUARRY_TRY(engine::MetadataSize({most.value / 100 * store.overcommit}, store.chunk));
  return Ok();
}

}  // namespace

Result<StoreConfig> ParseStore(std::string_view pool, std::string_view key, std::string_view value) {
  const std::string name(key.substr(kStorePrefix.size()));
  if (!lvm::IsPoolName(name)) {
    return Wrong("store.NAME, with a name of 1 to 32 letters, digits, '.', '_' and '-'", key);
  }
  QUARRY_ASSIGN(const lvm::Geometry linear, lvm::Geometry::Make({}));
  StoreConfig store{.name = name, .size = {}, .geometry = linear, .chunk = kDefaultChunk};
  engine::Parameters layout;
  std::set<std::string, std::less<>> given;
  for (bool first = true; first || !value.empty(); first = false) {
    const std::string_view word = value.substr(0, value.find(' '));
    value.remove_prefix(std::min(value.size(), word.size() + 1));
    if (first) {
      QUARRY_ASSIGN(store.size, ParseSize(word).Context(key));
      continue;
    }
    const size_t equals = word.find('=');
    const std::string what(word.substr(0, equals));
    const bool of_layout = IsOneOf(what, kLayoutWords);
    const bool known =
        of_layout || IsOneOf(what, kThresholds) || what == "chunk" || what == "max" || what == "overcommit";
    if (equals == std::string_view::npos || !known || !given.insert(what).second) {
      return Wrong(fmt::format("SIZE, then {}=…, chunk=…, max=…, overcommit=…, {}=…, each at most once and "
                               "separated by single spaces",
                               fmt::join(kLayoutWords, "=…, "), fmt::join(kThresholds, "=…, ")),
                   word)
          .Context(key);
    }
    const std::string_view text = word.substr(equals + 1);
    if (of_layout) {
      layout.emplace(what, text);
    } else {
      QUARRY_TRY(ApplyWord(store, what, text).Context(what).Context(key));
    }
  }
  QUARRY_ASSIGN(const engine::Profile profile,
                engine::Profile::Parse(layout, std::string(pool)).Context(key));
  if (profile.thin || store.size == Bytes{}) {
    return Wrong("a size above 0 and the type of a layout", profile.thin ? "type=thin" : "size 0")
        .Context(key);
  }
  store.geometry = profile.geometry;
  QUARRY_TRY(Check(store, given).Context(key));
  return store;
}

}  // namespace quarry::daemon
