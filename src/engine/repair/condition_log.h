// One log line for each change of a condition, not for each round: the conditions of volumes, and the
// obstacles that keep a pool's repairs waiting.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/model/types.h"

namespace quarry::engine {

// Not thread-safe: the repair loop guards it. Its memory need not survive a restart: conditions other than
// "healthy" are logged again.
class ConditionLog {
 public:
  // `log` must outlive this object.
  explicit ConditionLog(const Logger& log) : log_(log) {}

  // Conditions in one word (ConditionWord), by volume id.
  using Conditions = std::map<std::string, std::string>;
  // Logs the volume's condition if it is another one than at the last Keep for its pool. A volume that was
  // not in that Keep counts as healthy. Returns the condition, for the next Keep.
  std::string Note(const std::string& pool, const std::string& id, const Health& health) const;
  // The conditions of all volumes of the pool. The caller passes them once the whole pool was looked at: if a
  // look is aborted, the next look compares with the same conditions again.
  void Keep(const std::string& pool, Conditions conditions);

  // Logs the obstacles of a pool if they are others than those that were logged last. No obstacles log
  // nothing and change nothing.
  void NoteObstacles(const std::string& pool, const std::vector<std::string>& obstacles);

 private:
  const Logger& log_;
  std::map<std::string, Conditions> conditions_;  // by pool
  std::map<std::string, std::string> obstacles_;  // by pool: logged last
};

}  // namespace quarry::engine
