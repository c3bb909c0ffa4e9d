#include "engine/repair/condition_log.h"

#include <utility>

#include <fmt/format.h>

#include "engine/model/volume_health.h"

namespace quarry::engine {

std::string ConditionLog::Note(const std::string& pool, const std::string& id, const Health& health) const {
  std::string was = "healthy";
  if (const auto before = conditions_.find(pool); before != conditions_.end()) {
    if (const auto known = before->second.find(id); known != before->second.end()) {
      was = known->second;
    }
  }
  std::string now(ConditionWord(health));
  if (was != now) {
    const std::string why = health.ailments.empty() ? health.note : health.ailments.front().message;
    const LogLevel level = health.ailments.empty() ? LogLevel::kInfo : LogLevel::kWarning;
    log_.Log(level, "a volume's condition has changed",
             {{"volume", id}, {"was", was}, {"is", now}, {"detail", why}});
  }
  return now;
}

void ConditionLog::Keep(const std::string& pool, Conditions conditions) {
  conditions_[pool] = std::move(conditions);
}

void ConditionLog::NoteObstacles(const std::string& pool, const std::vector<std::string>& obstacles) {
  const std::string all = fmt::format("{}", fmt::join(obstacles, "; "));
  if (!all.empty() && std::exchange(obstacles_[pool], all) != all) {
    log_.Warning("repair has to wait", {{"pool", pool}, {"detail", all}});
  }
}

}  // namespace quarry::engine
