#include "daemon/metrics_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include <fmt/format.h>
#include <httplib.h>

#include "daemon/endpoint.h"
#include "daemon/metrics.h"

namespace quarry::daemon {
namespace {

constexpr size_t kThreads = 2;
constexpr std::chrono::seconds kPatience{5};  // with a client that is slow to ask or to take its answer
constexpr std::chrono::milliseconds kMoment{1};
constexpr size_t kLongestRequest = 4096;  // bytes of a body; there is nothing to send

void ListenAgainSoon(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

}  // namespace

struct MetricsServer::State {
  httplib::Server http;
  std::optional<AbsolutePath> socket;
  std::jthread thread;  // last: it uses the rest
};

MetricsServer::MetricsServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricsAddress& address,
                                                            std::function<std::string()> text) {
  auto state = std::make_unique<State>();
  httplib::Server& http = state->http;
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  http.set_socket_options(&ListenAgainSoon);
  http.set_read_timeout(kPatience);
  http.set_write_timeout(kPatience);
  http.set_keep_alive_timeout(kPatience.count());
  http.set_payload_max_length(kLongestRequest);
  http.Get("/metrics", [text = std::move(text)](const httplib::Request&, httplib::Response& response) {
    response.set_content(text(), Metrics::kContentType);
  });
  if (address.socket.has_value()) {
    QUARRY_TRY(ClaimSocket(*address.socket));
    http.set_address_family(AF_UNIX);
  }
  state->socket = address.socket;
  // The port is of no meaning for a socket, but 0 would mean "any".
  if (!(address.socket.has_value() ? http.bind_to_port(address.socket->str(), 1)
                                   : http.bind_to_port(address.host, address.port))) {
    return Error(Code::kUnavailable, fmt::format("cannot listen on {}", address.text));
  }
  state->thread = std::jthread([&http] { http.listen_after_bind(); });
  // Before that it cannot be told to stop.
  while (!http.is_running()) {
    std::this_thread::sleep_for(kMoment);
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(state)));
}

MetricsServer::~MetricsServer() {
  state_->http.stop();
  state_->thread.join();
  if (state_->socket.has_value()) {
    unlink(state_->socket->c_str());
  }
}

}  // namespace quarry::daemon
