// One log line for each change of a condition, not for each round: the conditions of a pool's volumes, and
// the obstacles that keep its repairs waiting.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/model/volume.h"

namespace quarry::engine {

// Not thread-safe: the repair loop guards it. Its memory need not survive a restart: conditions other than
// "healthy" are logged again.
class ConditionLog {
 public:
  // `log` must outlive this object.
  ConditionLog(const Logger& log, std::string pool) : log_(log), pool_(std::move(pool)) {}

  // Conditions in one word (ConditionWord), by volume id.
  using Conditions = std::map<std::string, std::string>;
  // Logs the volume's condition if it differs from the condition at the last Keep. A volume that was not in
  // that Keep counts as healthy. Returns the condition, for the next Keep.
  std::string Note(const std::string& id, const Health& health) const;
  // The conditions of all volumes. The caller passes them once the whole pool was looked at: if a
  // look is aborted, the next look compares with the same conditions again.
  void Keep(Conditions conditions) { conditions_ = std::move(conditions); }

  // Logs the obstacles if they differ from those that were logged last. Ignores an empty list.
  void NoteObstacles(const std::vector<std::string>& obstacles);

 private:
  const Logger& log_;
  const std::string pool_;
  Conditions conditions_;
  std::string obstacles_;  // logged last
};

}  // namespace quarry::engine
