#include "engine/model/store_ladder.h"

#include <algorithm>

namespace quarry::engine {
namespace {

constexpr uint32_t kRelief = 10;
constexpr std::chrono::minutes kLookEvery{1};
constexpr std::chrono::hours kTrendOver{1};
constexpr std::chrono::minutes kTrendFrom{5};

// Whether at least this many percent of the data are in use.
bool Reaches(const dm::ThinPoolStatus& status, uint32_t percent) {
  return status.data_used * 100 >= status.data_total * percent;
}

}  // namespace

StoreFill FillOf(const StoreConfig& rules, bool overcommits, const dm::ThinPoolStatus& status) {
  if (!overcommits) {
    return StoreFill::kAmple;
  }
  return Reaches(status, rules.refuse) ? StoreFill::kNearlyFull
         : Reaches(status, rules.warn) ? StoreFill::kFilling
                                       : StoreFill::kAmple;
}

Bytes WantedData(const StoreConfig& rules, const dm::ThinPoolStatus& status, Bytes chunk) {
  const Bytes now{status.data_total * chunk.value};
  if (rules.most <= now || !Reaches(status, rules.grow)) {
    return {};
  }
  const uint32_t aim = rules.grow > kRelief ? rules.grow - kRelief : 1;
  return std::min(rules.most, Bytes{(status.data_used * 100 / aim + 1) * chunk.value});
}

void FillTrend::Add(SteadyTime now, Bytes used) {
  if (looks_.size() > 1 && now - looks_[looks_.size() - 2].first < kLookEvery) {
    looks_.pop_back();  // the last look is always the latest
  }
  looks_.emplace_back(now, used);
  while (now - looks_.front().first > kTrendOver) {
    looks_.pop_front();
  }
}

std::optional<std::chrono::seconds> FillTrend::TimeToFull(Bytes size) const {
  if (looks_.size() < 2 || looks_.back().first - looks_.front().first < kTrendFrom ||
      looks_.back().second <= looks_.front().second) {
    return std::nullopt;
  }
  const auto& [first, before] = looks_.front();
  const auto& [last, now] = looks_.back();
  const double left = static_cast<double>((size - std::min(size, now)).value);
  const double rate =
      static_cast<double>((now - before).value) / std::chrono::duration<double>(last - first).count();
  return std::chrono::seconds(static_cast<int64_t>(left / rate));
}

}  // namespace quarry::engine
