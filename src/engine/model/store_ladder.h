// What is done as the data of an overcommitted thin store come into use: a warning and trimming, growth, and
// then nothing more is made in it. All of it happens before the kernel finds no chunk for a write. Pure.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "base/call.h"
#include "base/units.h"
#include "dm/thin_api.h"
#include "engine/model/config.h"

namespace quarry::engine {

enum class StoreFill {
  kAmple,       // so much is free that nothing is done, or no write can find the store full
  kFilling,     // from StoreConfig::warn on: a warning, and the file systems in the store are trimmed
  kNearlyFull,  // from StoreConfig::refuse on: nothing is made in it, and no volume grows
};
// `rules`: RulesOf(store) (model/thin_space.h). `overcommits`: Overcommits(store).
StoreFill FillOf(const StoreConfig& rules, bool overcommits, const dm::ThinPoolStatus& status);

// The size that the data of an overcommitted store should grow to now; 0: they need not grow, or must not
// grow further. So much that the part in use falls 10 points below StoreConfig::grow.
Bytes WantedData(const StoreConfig& rules, const dm::ThinPoolStatus& status, Bytes chunk);

// How fast a store fills. Not thread-safe.
class FillTrend {
 public:
  // `used`: of the data, now. Keeps one look a minute, for an hour.
  void Add(SteadyTime now, Bytes used);
  // When data of this size will be full if they go on to fill as in the last hour. nullopt: they do not fill,
  // or it is too early to tell.
  std::optional<std::chrono::seconds> TimeToFull(Bytes size) const;

 private:
  std::deque<std::pair<SteadyTime, Bytes>> looks_;
};

}  // namespace quarry::engine
