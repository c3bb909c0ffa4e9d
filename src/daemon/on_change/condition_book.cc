#include "daemon/on_change/condition_book.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

namespace quarry::daemon {
namespace {

using engine::Severity;

constexpr const char* kPoolKind = "pool";
constexpr const char* kStoreKind = "store";
constexpr const char* kHealthy = "healthy";
constexpr int kFormat = 1;

std::string GoodState(const Thing& thing) {
  return thing.kind == kPoolKind ? "readable" : thing.kind == "disk" ? "ok" : kHealthy;
}

Condition ConditionOf(const engine::DiskStatus& disk) {
  const std::string_view word = engine::DiskConditionName(disk.condition);
  return {std::string(word), engine::SeverityOfDisk(word), disk.device, disk.detail};
}

Condition ConditionOf(const engine::VolumeStatus& volume) {
  const Severity severity = engine::SeverityOfVolume(volume.condition);
  return {severity == Severity::kOk ? kHealthy : volume.condition, severity, volume.name, volume.detail};
}

Condition ConditionOf(const engine::StoreStatus& store) {
  const std::string mode(engine::StoreModeName(store.mode));
  const Severity severity = engine::SeverityOfStore(mode, store.condition, !store.problem.empty());
  const std::string& reason = store.problem.empty() ? store.detail : store.problem;
  if (severity == Severity::kOk) {
    return {kHealthy, severity, store.name, ""};
  }
  if (store.mode != engine::StoreMode::kReadWrite) {
    return {mode, severity, store.name, reason};
  }
  if (engine::SeverityOfVolume(store.condition) != Severity::kOk) {
    return {store.condition, severity, store.name, store.detail};
  }
  return {"too-small", severity, store.name, reason};
}

// quarryd may be starting it, or the disks may be slow for a moment.
bool MayBeStarting(const engine::StoreStatus& store) {
  using engine::StoreMode;
  return store.mode == StoreMode::kNotStarted || store.mode == StoreMode::kNotMade ||
         store.mode == StoreMode::kUnknown;
}

}  // namespace

std::string WriteTold(const ToldConditions& told) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [thing, condition] : told) {
    rows.push_back({{"kind", thing.kind},
                    {"pool", thing.pool},
                    {"id", thing.id},
                    {"state", condition.state},
                    {"name", condition.name}});
  }
  const nlohmann::json whole = {{"format", kFormat}, {"told", std::move(rows)}};
  return whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<ToldConditions> ReadTold(const std::string& text) {
  try {
    const auto whole = nlohmann::json::parse(text);
    if (whole.at("format") != kFormat) {
      return Error(Code::kInvalidArgument, "it was written by another build");
    }
    ToldConditions told;
    for (const auto& row : whole.at("told")) {
      told[{row.at("kind"), row.at("pool"), row.at("id")}] = {row.at("state"), row.at("name")};
    }
    return told;
  } catch (const nlohmann::json::exception& error) {
    return Error(Code::kInvalidArgument, error.what());
  }
}

ConditionBook::ConditionBook(ToldConditions told) : told_(std::move(told)) {
  for (const auto& [thing, condition] : told_) {
    inherited_.insert(thing);
  }
}

void ConditionBook::LookAtPool(const engine::PoolStatus& pool, SteadyTime now,
                               std::map<Thing, Condition>& seen) {
  const std::string& name = pool.figures.pool;
  const std::string& problem = pool.figures.problem;
  if (problem.empty()) {
    unreadable_.erase(name);
  } else {
    unreadable_.try_emplace(name, now);
  }
  seen[{kPoolKind, name, name}] = {problem.empty() ? "readable" : "unreadable",
                                   problem.empty() ? Severity::kOk : Severity::kCritical, name, problem};
  for (const engine::DiskStatus& disk : pool.disks) {
    const Thing thing{"disk", name, disk.pv_uuid};
    Condition& condition = seen[thing] = ConditionOf(disk);
    // After a start a disk is well until it is asked, which is no news.
    const auto told = told_.find(thing);
    const bool unasked = !disk.health.has_value() && now - *first_look_ < kHealthPatience;
    if (told != told_.end() && unasked && condition.state == "ok" &&
        (told->second.state == "failing" || told->second.state == "worn")) {
      condition.state = told->second.state;
      condition.severity = engine::SeverityOfDisk(condition.state);
    }
  }
  for (const engine::VolumeStatus& volume : pool.volumes) {
    seen[{volume.snapshot_of.empty() ? "volume" : "snapshot", name, volume.id}] = ConditionOf(volume);
  }
  for (const engine::StoreStatus& store : pool.stores) {
    LookAtStore({kStoreKind, name, store.name}, store, now, seen);
  }
}

void ConditionBook::LookAtStore(const Thing& thing, const engine::StoreStatus& store, SteadyTime now,
                                std::map<Thing, Condition>& seen) {
  if (MayBeStarting(store)) {
    not_serving_.try_emplace(thing, now);
  } else {
    not_serving_.erase(thing);
  }
  seen[thing] = ConditionOf(store);
}

bool ConditionBook::Waits(const Thing& thing, SteadyTime now) const {
  if (const auto pool = unreadable_.find(thing.pool); pool != unreadable_.end()) {
    return thing.kind != kPoolKind || now - pool->second < kPoolPatience;
  }
  const auto store = not_serving_.find(thing);
  return store != not_serving_.end() && now - store->second < kStorePatience;
}

bool ConditionBook::MustBeTold(const Thing& thing, const Condition& now) const {
  const auto told = told_.find(thing);
  if (now.severity == Severity::kOk) {
    return told != told_.end();
  }
  return told == told_.end() || told->second.state != now.state || inherited_.contains(thing);
}

size_t ConditionBook::Look(const std::vector<engine::PoolStatus>& pools, SteadyTime now) {
  std::map<Thing, Condition> seen;
  first_look_ = first_look_.value_or(now);
  for (const engine::PoolStatus& pool : pools) {
    LookAtPool(pool, now, seen);
  }
  // What was told, or is to be, and exists no longer.
  const auto gone = [&](const Thing& thing, const std::string& name) {
    if (!unreadable_.contains(thing.pool)) {
      seen.try_emplace(thing, Condition{"removed", Severity::kOk, name, ""});
    }
  };
  std::erase_if(unreadable_,
                [&](const auto& pool) { return !seen.contains({kPoolKind, pool.first, pool.first}); });
  for (const auto& [thing, condition] : told_) {
    gone(thing, condition.name);
  }
  for (const auto& [thing, one] : waiting_) {
    gone(thing, one.now.name);
  }
  // One that comes back later is given time again.
  std::erase_if(not_serving_, [&](const auto& store) {
    return !seen.contains(store.first) && !unreadable_.contains(store.first.pool);
  });
  size_t returned = 0;
  for (auto& [thing, condition] : seen) {
    if (Waits(thing, now)) {
      continue;
    }
    if (!MustBeTold(thing, condition) && telling_ != thing) {
      returned += waiting_.erase(thing);
      continue;
    }
    const auto [waiting, added] = waiting_.try_emplace(thing, Waiting{turns_, condition});
    turns_ += added ? 1 : 0;
    waiting->second.skipped += waiting->second.now.state == condition.state ? 0 : 1;
    waiting->second.now = std::move(condition);
  }
  return returned;
}

std::optional<Change> ConditionBook::Begin() {
  if (waiting_.empty()) {
    return std::nullopt;
  }
  const auto& [thing, one] =
      *std::ranges::min_element(waiting_, {}, [](const auto& waiting) { return waiting.second.turn; });
  telling_ = thing;
  const auto told = told_.find(thing);
  std::string before = told == told_.end() ? GoodState(thing) : told->second.state;
  const bool repeated = before == one.now.state;
  return Change{thing, one.now, std::move(before), repeated, one.skipped};
}

size_t ConditionBook::Told(const Change& change) {
  telling_.reset();
  inherited_.erase(change.thing);
  if (change.now.severity == Severity::kOk) {
    told_.erase(change.thing);
  } else {
    told_[change.thing] = {change.now.state, change.now.name};
  }
  const auto waiting = waiting_.find(change.thing);
  if (waiting == waiting_.end()) {
    return 0;
  }
  const bool changed = waiting->second.skipped > change.skipped;
  if (!MustBeTold(change.thing, waiting->second.now)) {
    waiting_.erase(waiting);
    return changed ? 1 : 0;
  }
  // It changed again while it was told, and goes to the end of the line.
  waiting->second.turn = turns_++;
  waiting->second.skipped -= change.skipped + 1;
  return 0;
}

}  // namespace quarry::daemon
