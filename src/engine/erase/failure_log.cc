#include "engine/erase/failure_log.h"

namespace quarry::engine {

void FailureLog::Note(const std::string& lv, const Status& outcome) {
  if (outcome.has_value()) {
    if (reasons_.erase(lv) == 0) {
      return;
    }
    if (lv.empty()) {
      log_.Info(messages_.recovered, {{"pool", pool_}});
    } else {
      log_.Info(messages_.recovered, {{"pool", pool_}, {"lv", lv}});
    }
    return;
  }
  const std::string& reason = outcome.error().message();
  const auto [known, is_new] = reasons_.try_emplace(lv, reason);
  if (!is_new && std::exchange(known->second, reason) == reason) {
    return;
  }
  if (lv.empty()) {
    log_.Warning(messages_.fails, {{"pool", pool_}, {"error", reason}});
  } else {
    log_.Warning(messages_.fails, {{"pool", pool_}, {"lv", lv}, {"error", reason}});
  }
}

void FailureLog::Forget(const std::function<bool(const std::string& lv)>& gone) {
  std::erase_if(reasons_, [&](const auto& entry) { return gone(entry.first); });
}

}  // namespace quarry::engine
