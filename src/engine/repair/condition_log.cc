#include "engine/repair/condition_log.h"

#include <utility>

#include <fmt/format.h>

#include "engine/model/volume_health.h"

namespace quarry::engine {

std::string ConditionLog::Note(const std::string& id, const Health& health) const {
  const auto known = conditions_.find(id);
  const std::string was = known != conditions_.end() ? known->second : "healthy";
  std::string now(ConditionWord(health));
  if (was != now) {
    const std::string why = health.ailments.empty() ? health.note : health.ailments.front().message;
    const LogLevel level = health.ailments.empty() ? LogLevel::kInfo : LogLevel::kWarning;
    log_.Log(level, "a volume's condition has changed",
             {{"volume", id}, {"was", was}, {"is", now}, {"detail", why}});
  }
  return now;
}

void ConditionLog::NoteObstacles(const std::vector<std::string>& obstacles) {
  const std::string all = fmt::format("{}", fmt::join(obstacles, "; "));
  if (!all.empty() && std::exchange(obstacles_, all) != all) {
    log_.Warning("repair has to wait", {{"pool", pool_}, {"detail", all}});
  }
}

}  // namespace quarry::engine
