// Sends the metrics to a StatsD server, for sites that collect with StatsD, Telegraf, Datadog or Vector. They
// are the metrics of the Prometheus page, taken from its text, so that neither can have what the other lacks.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"

namespace quarry::daemon {

struct StatsdAddress {
  std::string text;                    // as configured, for messages
  std::optional<AbsolutePath> socket;  // of datagrams
  std::string host, port;              // otherwise
};
// "udp://127.0.0.1:8125", "udp://[::1]:8125", "udp://statsd.example.com:8125", "unixgram:///dir/name.sock".
Result<StatsdAddress> ParseStatsdAddress(std::string_view text);

// Turns pages into lines of StatsD with tags as DogStatsD has them: "quarry_ready:1|g",
// "quarry_pool_free_bytes:7|g|#pool:main". Counters are sent as what was added since the page before. Of a
// histogram the number and the sum are sent as counters, and the buckets are left out. For one thread.
class StatsdLines {
 public:
  std::vector<std::string> Next(std::string_view page);

 private:
  std::map<std::string, double, std::less<>> before_;  // values of counters, by series
  bool first_ = true;
};

// Joins lines to datagrams of at most `most` bytes, unless a single line is longer. Pure.
std::vector<std::string> PackLines(const std::vector<std::string>& lines, size_t most);

// An address that sendto(2) takes.
struct HostAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
using LookUp = std::function<Result<HostAddress>(const std::string& host, const std::string& port)>;
// By getaddrinfo(3), which may take as long as the resolver's time limits allow.
Result<HostAddress> LookUpHost(const std::string& host, const std::string& port);

// Sends a page at each interval from a thread of its own. A server that is not there loses what was sent
// meanwhile; that is logged once, and once when it is back. `log` outlives the thread. A stop does not wait
// for `look_up`, which has a detached thread for each name and refers to nothing that may end before it.
std::jthread SendToStatsd(StatsdAddress address, std::function<std::string()> page, const Logger& log,
                          std::chrono::milliseconds interval = std::chrono::seconds(10),
                          LookUp look_up = &LookUpHost);

}  // namespace quarry::daemon
