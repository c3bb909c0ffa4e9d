// Serves the metrics (GET /metrics) and whether quarryd is ready (GET /readyz) over HTTP, without
// authentication, to all clients that can reach the address. It serves nothing else, and it changes nothing.
//
// It uses one thread, and at most kMostConnections descriptors for clients. When one more client connects,
// the server closes the oldest connection whose response is sent, or else the oldest that has sent no
// complete request. Clients that only connect therefore cannot keep out a client that asks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/settings/values.h"

namespace quarry::daemon {

// What the server answers with. Both run on its thread.
struct MetricsPages {
  std::function<std::string()> metrics;
  std::function<std::string()> problem;  // why quarryd is not ready; empty: it is
};

class MetricsServer {
 public:
  static constexpr size_t kMostConnections = 16;
  // How long a client may take to send its request, and again to read the response.
  static constexpr std::chrono::seconds kPatience{5};
  // How long one page is reused for all requests. Making the metrics reads the headers of the disks.
  static constexpr std::chrono::seconds kFresh{1};

  // Listens at once and answers until destroyed. Replaces a stale socket, as ClaimSocket does. kUnavailable
  // if the address is not available.
  static Result<std::unique_ptr<MetricsServer>> Start(const MetricsAddress& address, MetricsPages pages);
  // Waits for a page that is being made, and closes the connections.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  class Loop;
  explicit MetricsServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace quarry::daemon
