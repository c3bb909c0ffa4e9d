// The metrics over HTTP: GET /metrics, to whoever can reach the address, without authentication. Nothing else
// is served and nothing can be changed there.
//
// One thread, and at most kMostConnections descriptors whatever callers do: when one more arrives, the
// connection that has kept silent longest makes room for it. So callers who only connect cannot keep away one
// who asks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/settings/values.h"

namespace quarry::daemon {

class MetricsServer {
 public:
  static constexpr size_t kMostConnections = 16;
  // For a caller to ask, and again to take the answer.
  static constexpr std::chrono::seconds kPatience{5};
  // How long one text answers all who ask: making it looks at the disks' headers.
  static constexpr std::chrono::seconds kFresh{1};

  // Listens at once and answers with what `text` gives, called on the server's thread, until destroyed. A
  // socket that a dead process left is replaced, as ClaimSocket does. kUnavailable if the address cannot be
  // had.
  static Result<std::unique_ptr<MetricsServer>> Start(const MetricsAddress& address,
                                                      std::function<std::string()> text);
  // Waits for a text that is being made; connections are closed.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  class Loop;
  explicit MetricsServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace quarry::daemon
