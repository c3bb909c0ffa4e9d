// The metrics over HTTP: GET /metrics, to whoever can reach the address. Nothing else is served and nothing
// can be changed there.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/values.h"

namespace quarry::daemon {

class MetricsServer {
 public:
  // Listens at once and answers with what `text` gives, called on threads of the server, until destroyed. A
  // socket that a dead process left is replaced, as ClaimSocket does. kUnavailable if the address cannot be
  // had.
  static Result<std::unique_ptr<MetricsServer>> Start(const MetricsAddress& address,
                                                      std::function<std::string()> text);
  // Waits for answers under way.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  struct State;
  explicit MetricsServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quarry::daemon
