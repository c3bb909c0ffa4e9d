// Logs failures of work that is tried again. A failure has a line when it begins, when its reason changes and
// when it ends, not for every attempt.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"

namespace quarry::engine {

// The failures of one kind in one pool. For one thread.
class FailureLog {
 public:
  // The messages of the lines.
  struct Messages {
    std::string_view fails;
    std::string_view recovered;
  };
  // `log` and the text of `messages` must outlive this object.
  FailureLog(const Logger& log, std::string pool, Messages messages)
      : log_(log), pool_(std::move(pool)), messages_(messages) {}

  // Takes the outcome of an attempt. `lv`: the logical volume that it was for; empty: the pool as a whole.
  void Note(const std::string& lv, const Status& outcome);
  // Forgets the logical volumes for which `gone` holds. Logs nothing.
  void Forget(const std::function<bool(const std::string& lv)>& gone);

 private:
  const Logger& log_;
  const std::string pool_;
  const Messages messages_;
  std::map<std::string, std::string> reasons_;  // the last reason, by logical volume
};

}  // namespace quarry::engine
