#include "bucket/gateway_probe.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/call.h"
#include "base/unique_fd.h"

namespace quarry::bucket {
namespace {

constexpr uint32_t kMostPort = 65535;

// Waits until the socket is ready for `events`.
Status WaitFor(int fd, short events, const Call& call) {  // NOLINT(google-runtime-int): poll(2) has it so
  pollfd wanted{.fd = fd, .events = events, .revents = 0};
  const int n = poll(&wanted, 1, static_cast<int>(call.Remaining().count()));
  if (n < 0) {
    return ErrnoError("waiting for the gateway");
  }
  return n > 0 ? Ok() : Status(Error(Code::kTimeout, "the gateway does not answer in time"));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

Result<UniqueFd> Connect(const HostAndPort& to, const Call& call) {
  // A gateway that listens on every address answers on the loopback too.
  const std::string host = to.host == "0.0.0.0" ? "127.0.0.1" : to.host == "::" ? "::1" : to.host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), to.port.c_str(), &hints, &found) != 0) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' is no address", host));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> address(found);
  UniqueFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return ErrnoError("making a socket");
  }
  if (connect(fd.get(), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoError("connecting to the gateway");
  }
  QUARRY_TRY(WaitFor(fd.get(), POLLOUT, call));
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    return ErrnoError("connecting to the gateway", error);
  }
  return fd;
}

}  // namespace

Result<HostAndPort> ParseListen(const std::string& listen) {
  const auto bad = [&] {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}' is not ADDRESS:PORT such as 127.0.0.1:7070 or [::1]:7070", listen));
  };
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return bad();
  }
  HostAndPort out{listen.substr(0, colon), listen.substr(colon + 1)};
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return bad();
  }
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(out.port.data(), out.port.data() + out.port.size(), port);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (error != std::errc() || end != out.port.data() + out.port.size() || port == 0 || port > kMostPort ||
      out.host.empty() || getaddrinfo(out.host.c_str(), nullptr, &hints, &found) != 0) {
    return bad();
  }
  freeaddrinfo(found);
  return out;
}

Status ProbeGateway(const std::string& listen, bool tls, std::chrono::milliseconds patience) {
  const Call call = CallWithin(patience);
  QUARRY_ASSIGN(const HostAndPort to, ParseListen(listen));
  QUARRY_ASSIGN(const UniqueFd fd, Connect(to, call));
  if (tls) {
    return Ok();
  }
  constexpr std::string_view kAsk = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (send(fd.get(), kAsk.data(), kAsk.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kAsk.size())) {
    return ErrnoError("asking the gateway");
  }
  std::string answer;
  while (answer.find('\n') == std::string::npos && answer.size() < 256) {
    QUARRY_TRY(WaitFor(fd.get(), POLLIN, call));
    std::array<char, 256> piece{};
    const ssize_t n = recv(fd.get(), piece.data(), piece.size(), 0);
    if (n <= 0) {
      return n == 0 ? Status(Error(Code::kUnavailable, "the gateway closed the connection"))
                    : Status(ErrnoError("reading the gateway's answer"));
    }
    answer.append(piece.data(), static_cast<size_t>(n));
  }
  return answer.starts_with("HTTP/1.1 200 ")
             ? Ok()
             : Status(Error(Code::kUnavailable,
                            fmt::format("the gateway answers '{}'", answer.substr(0, answer.find('\r')))));
}

}  // namespace quarry::bucket
