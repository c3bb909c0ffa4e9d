#include "bucket/probe_connection.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace quarry::bucket {
namespace {

constexpr size_t kMostAnswer = 4096;

// Waits until the socket is ready for `events`.
Status WaitFor(int fd, short events, std::string_view doing,
               const Call& call) {  // NOLINT(google-runtime-int)
  pollfd wanted{.fd = fd, .events = events, .revents = 0};
  const int n = poll(&wanted, 1, static_cast<int>(std::max<int64_t>(call.Remaining().count(), 0)));
  if (n < 0) {
    return ErrnoError("waiting for the gateway");
  }
  return n > 0 ? Ok()
               : Status(Error(Code::kTimeout, fmt::format("the gateway does not answer in time: {}", doing)));
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
  QUARRY_TRY(WaitFor(fd.get(), POLLOUT, "connecting", call));
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    return ErrnoError("connecting to the gateway", error);
  }
  return fd;
}

// --- without TLS

Status Send(int fd, std::string_view text, const Call& call) {
  while (!text.empty()) {
    const ssize_t n = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      QUARRY_TRY(WaitFor(fd, POLLOUT, "sending a request", call));
    } else if (n < 0 && errno != EINTR) {
      return ErrnoError("asking the gateway");
    }
    text.remove_prefix(n < 0 ? 0 : static_cast<size_t>(n));
  }
  return Ok();
}

Result<std::string> Receive(int fd, const Call& call) {
  std::string answer;
  std::array<char, kMostAnswer> piece{};
  while (answer.size() < kMostAnswer) {
    const ssize_t n = recv(fd, piece.data(), piece.size(), 0);
    if (n == 0) {
      break;
    }
    if (n < 0 && errno == EAGAIN) {
      QUARRY_TRY(WaitFor(fd, POLLIN, "waiting for its answer", call));
    } else if (n < 0 && errno != EINTR) {
      return ErrnoError("reading the gateway's answer");
    }
    answer.append(piece.data(), n < 0 ? 0 : static_cast<size_t>(n));
  }
  return answer;
}

// --- with TLS (ssl(7))

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
using Session = std::unique_ptr<SSL, FreeSession>;

Error TlsError(std::string_view doing) {
  const uint64_t number = ERR_get_error();
  const char* const reason = number == 0 ? nullptr : ERR_reason_error_string(number);
  return Error(Code::kUnavailable, fmt::format("TLS with the gateway failed: {}: {}", doing,
                                               reason == nullptr ? "the connection was closed" : reason));
}

// Repeats `step` while it waits for the socket. Returns its result, or 0 at the end of the connection.
template <typename Function>
Result<int> Repeat(SSL* session, int fd, std::string_view doing, const Call& call, const Function& step) {
  while (true) {
    // Whoever has the port may send records without data for ever, so that the socket is always ready.
    QUARRY_TRY(call.Check(doing));
    ERR_clear_error();
    const int done = step();
    if (done > 0) {
      return done;
    }
    switch (SSL_get_error(session, done)) {
      case SSL_ERROR_WANT_READ:
        QUARRY_TRY(WaitFor(fd, POLLIN, doing, call));
        break;
      case SSL_ERROR_WANT_WRITE:
        QUARRY_TRY(WaitFor(fd, POLLOUT, doing, call));
        break;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      default:
        return TlsError(doing);
    }
  }
}

Result<std::string> AskByTls(int fd, std::string_view request, const Call& call) {
  const Context context(SSL_CTX_new(TLS_client_method()));
  const Session session(context == nullptr ? nullptr : SSL_new(context.get()));
  if (session == nullptr || SSL_set_min_proto_version(session.get(), TLS1_2_VERSION) != 1 ||
      SSL_set_fd(session.get(), fd) != 1) {
    return TlsError("preparing");
  }
  SSL* const tls = session.get();
  SSL_clear_mode(tls, SSL_MODE_AUTO_RETRY);  // each record comes back to Repeat, which looks at the time
  QUARRY_ASSIGN(const int greeted,
                Repeat(tls, fd, "the handshake", call, [tls] { return SSL_connect(tls); }));
  if (greeted == 0) {
    return TlsError("the handshake");
  }
  const int size = static_cast<int>(request.size());
  QUARRY_TRY(
      Repeat(tls, fd, "sending a request", call, [&] { return SSL_write(tls, request.data(), size); }));
  std::string answer;
  std::array<char, kMostAnswer> piece{};
  while (answer.size() < kMostAnswer) {
    const auto read = Repeat(tls, fd, "waiting for its answer", call,
                             [&] { return SSL_read(tls, piece.data(), static_cast<int>(piece.size())); });
    if (!read.has_value() && (answer.empty() || read.error().code() == Code::kTimeout)) {
      return read.error();
    }
    if (!read.has_value() || *read == 0) {
      break;  // a server may close without saying so
    }
    answer.append(piece.data(), static_cast<size_t>(*read));
  }
  return answer;
}

}  // namespace

Result<std::string> AskOnce(const HostAndPort& to, bool tls, std::string_view request, const Call& call) {
  QUARRY_ASSIGN(const UniqueFd fd, Connect(to, call));
  if (tls) {
    return AskByTls(fd.get(), request, call);
  }
  QUARRY_TRY(Send(fd.get(), request, call));
  return Receive(fd.get(), call);
}

}  // namespace quarry::bucket
