#include "daemon/monitoring/metrics_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "daemon/monitoring/http_request.h"
#include "daemon/monitoring/metrics.h"
#include "daemon/process/endpoint.h"

namespace quarry::daemon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 1024;  // waiting connections stay in the kernel and use no descriptor of quarryd
constexpr std::chrono::milliseconds kTick{200};  // interval between checks for silent connections
// A connection that began its present phase (Phase) less than this ago is not closed to make room. A new
// caller is about to ask.
constexpr std::chrono::milliseconds kGrace{5};

Result<UniqueFd> Listen(int family, const sockaddr* address, socklen_t length, const std::string& text) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(fd.get(), address, length) != 0 || listen(fd.get(), kBacklog) != 0) {
    return ErrnoError(fmt::format("cannot listen on {}", text)).As(Code::kUnavailable);
  }
  return fd;
}

Result<UniqueFd> ListenOnSocket(const AbsolutePath& path, const std::string& text) {
  QUARRY_TRY(ClaimSocket(path));
  QUARRY_ASSIGN(const sockaddr_un address, UnixAddress(path));
  return Listen(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof(address), text);
}

Result<UniqueFd> ListenOnPort(const MetricsAddress& address) {
  const auto port = htons(static_cast<uint16_t>(address.port));
  sockaddr_in6 six{};
  if (inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = port;
    return Listen(AF_INET6, reinterpret_cast<const sockaddr*>(&six), sizeof(six), address.text);
  }
  sockaddr_in four{};
  inet_pton(AF_INET, address.host.c_str(), &four.sin_addr);  // ParseMetricsAddress checked the address
  four.sin_family = AF_INET;
  four.sin_port = port;
  return Listen(AF_INET, reinterpret_cast<const sockaddr*>(&four), sizeof(four), address.text);
}

}  // namespace

class MetricsServer::Loop {
 public:
  Loop(UniqueFd listener, UniqueFd wake, const std::optional<AbsolutePath>& socket, MetricsPages pages)
      : listener_(std::move(listener)),
        wake_(std::move(wake)),
        socket_(socket.has_value() ? std::optional<SocketFile>(*socket) : std::nullopt),
        pages_(std::move(pages)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  ~Loop() {
    thread_.request_stop();
    (void)eventfd_write(wake_.get(), 1);
    thread_.join();
    if (socket_.has_value()) {
      socket_->Remove();
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

 private:
  enum class Phase {
    kAsking,     // the request is being read
    kAnswering,  // the response is being written
    kLeaving,    // the response is sent; further input is discarded, so that closing cannot cut the response
                 // short
  };
  struct Connection {
    UniqueFd fd;
    Phase phase = Phase::kAsking;
    std::string request, answer;
    size_t sent = 0;
    Clock::time_point since;  // start of the current phase
  };

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Wait();
      // Existing connections are served first: a caller that has asked is not silent.
      std::erase_if(connections_, [this](Connection& one) { return !Serve(one); });
      Accept();
    }
  }

  void Wait() {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    const bool accepting = Clock::now() >= accept_after_;
    if (accepting) {
      polled.push_back({listener_.get(), POLLIN, 0});
    }
    for (const Connection& one : connections_) {
      polled.push_back(
          {one.fd.get(), static_cast<short>(one.phase == Phase::kAnswering ? POLLOUT : POLLIN), 0});
    }
    poll(polled.data(), polled.size(), static_cast<int>((accepting ? kTick : kGrace).count()));
  }

  void Accept() {
    while (Clock::now() >= accept_after_ && MakeRoom()) {
      UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          accept_after_ = Clock::now() + kTick;  // else poll reports at once that a connection waits
        }
        if (errno != ECONNABORTED && errno != EINTR) {
          return;
        }
        continue;
      }
      connections_.push_back({.fd = std::move(fd), .request = {}, .answer = {}, .since = Clock::now()});
      if (!Serve(connections_.back())) {
        connections_.pop_back();
      }
    }
  }

  // Makes room for one more connection. The connections are ordered by arrival. A response in progress is the
  // last to be cut short. False: no connection waits, or it has to wait a little longer, because all others
  // are new.
  bool MakeRoom() {
    if (connections_.size() < kMostConnections) {
      return true;
    }
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (poll(&waiting, 1, 0) <= 0) {
      return false;  // no connection waits, so none has to be closed
    }
    for (const Phase phase : {Phase::kLeaving, Phase::kAsking, Phase::kAnswering}) {
      const auto found = std::ranges::find_if(connections_, [&](const Connection& one) {
        return one.phase == phase && Clock::now() - one.since >= kGrace;
      });
      if (found != connections_.end()) {
        connections_.erase(found);
        return true;
      }
    }
    accept_after_ = Clock::now() + kGrace;
    return false;
  }

  // Does all that is possible without waiting. False: the connection is finished.
  bool Serve(Connection& one) {
    if (one.phase == Phase::kAsking && !Read(one)) {
      return false;
    }
    if (one.phase == Phase::kAnswering && !Write(one)) {
      return false;
    }
    if (one.phase == Phase::kLeaving && !Drain(one)) {
      return false;
    }
    return Clock::now() - one.since < kPatience;
  }

  bool Read(Connection& one) {
    std::array<char, 1024> buffer{};
    for (;;) {
      const ssize_t got = recv(one.fd.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
      }
      one.request.append(buffer.data(), static_cast<size_t>(got));
      const HttpAsked asked = ReadHttpRequest(one.request);
      if (asked != HttpAsked::kIncomplete) {
        Begin(one, asked);
        return true;
      }
    }
  }

  void Begin(Connection& one, HttpAsked asked) {
    one.answer = asked == HttpAsked::kMetrics
                     ? MetricsAnswer(Metrics::kContentType, Fresh(metrics_, pages_.metrics))
                 : asked == HttpAsked::kReadiness ? ReadinessAnswer(Fresh(problem_, pages_.problem))
                                                  : RefusalAnswer(asked);
    one.phase = Phase::kAnswering;
    one.since = Clock::now();
  }

  bool Write(Connection& one) {
    while (one.sent < one.answer.size()) {
      const ssize_t put =
          send(one.fd.get(), one.answer.data() + one.sent, one.answer.size() - one.sent, MSG_NOSIGNAL);
      if (put < 0) {
        return errno == EAGAIN || errno == EINTR;
      }
      one.sent += static_cast<size_t>(put);
    }
    one.phase = Phase::kLeaving;
    one.since = Clock::now();
    return shutdown(one.fd.get(), SHUT_WR) == 0;
  }

  static bool Drain(const Connection& one) {
    std::array<char, 4096> buffer{};
    // Limited, so that a caller that keeps sending does not delay the others.
    for (int i = 0; i < 4; ++i) {
      const ssize_t got = recv(one.fd.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
      }
    }
    return true;
  }

  // A page, and when it was made.
  struct Kept {
    std::string text;
    Clock::time_point made;
  };

  static const std::string& Fresh(Kept& kept, const std::function<std::string()>& make) {
    if (Clock::now() - kept.made >= kFresh || kept.made == Clock::time_point()) {
      kept.text = make();
      kept.made = Clock::now();
    }
    return kept.text;
  }

  UniqueFd listener_, wake_;
  const std::optional<SocketFile> socket_;
  const MetricsPages pages_;
  Kept metrics_, problem_;
  Clock::time_point accept_after_;
  std::list<Connection> connections_;
  std::jthread thread_;  // last: it uses everything above
};

MetricsServer::MetricsServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricsAddress& address,
                                                            MetricsPages pages) {
  QUARRY_ASSIGN(UniqueFd listener, address.socket.has_value() ? ListenOnSocket(*address.socket, address.text)
                                                              : ListenOnPort(address));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return ErrnoError("making an eventfd");
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(
      std::make_unique<Loop>(std::move(listener), std::move(wake), address.socket, std::move(pages))));
}

}  // namespace quarry::daemon
