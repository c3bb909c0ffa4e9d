#include "csi/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>

#include <fmt/format.h>
#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>

namespace quarry::csi {
namespace {

constexpr int kBacklog = 16;
// How long the listener pauses if the process has no free descriptor.
constexpr std::chrono::milliseconds kLater{200};
constexpr std::string_view kFdPrefix = "fd:";  // gRPC names a connection that it was given "fd:<number>"

Result<UniqueFd> Bind(const AbsolutePath& path) {
  QUARRY_ASSIGN(const sockaddr_un address, UnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // The socket file gets the mode of the descriptor, reduced by the umask (unix(7) does not mention it).
  if (!fd.valid() || fchmod(fd.get(), 0600) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return ErrnoError(fmt::format("cannot listen on '{}'", path.str())).As(Code::kUnavailable);
  }
  return fd;
}

}  // namespace

void Peers::Set(int fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  const MutexLock lock(mutex_);
  words_[fd] = known ? fmt::format("pid {}, uid {}", peer.pid, peer.uid) : "unknown";
}

std::string Peers::Of(const std::string& peer) const {
  int fd = -1;
  if (!peer.starts_with(kFdPrefix) ||
      std::from_chars(peer.data() + kFdPrefix.size(), peer.data() + peer.size(), fd).ec != std::errc()) {
    return "";
  }
  const MutexLock lock(mutex_);
  const auto found = words_.find(fd);
  return found == words_.end() ? "" : found->second;
}

Listener::Listener(AbsolutePath socket, AtEnd at_end, UniqueFd listening, UniqueFd wake, grpc::Server& server,
                   Peers& peers)
    : file_(std::move(socket)),
      at_end_(at_end),
      listening_(std::move(listening)),
      wake_(std::move(wake)),
      server_(server),
      peers_(peers),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Result<std::unique_ptr<Listener>> Listener::Start(const AbsolutePath& socket, grpc::Server& server,
                                                  Peers& peers, AtEnd at_end) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return ErrnoError("making an eventfd");
  }
  QUARRY_ASSIGN(UniqueFd listening, Bind(socket));
  return std::unique_ptr<Listener>(
      new Listener(socket, at_end, std::move(listening), std::move(wake), server, peers));
}

Listener::~Listener() {
  thread_.request_stop();
  (void)eventfd_write(wake_.get(), 1);
  thread_.join();
  if (at_end_ == AtEnd::kRemove) {
    file_.Remove();
  }
}

void Listener::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::array<pollfd, 2> polled = {pollfd{wake_.get(), POLLIN, 0}, pollfd{listening_.get(), POLLIN, 0}};
    poll(polled.data(), polled.size(), -1);
    UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid() && !stop.stop_requested()) {
      peers_.Set(fd.get());
      grpc::AddInsecureChannelFromFd(&server_, fd.Release());
    } else if (!fd.valid() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      poll(polled.data(), 1, static_cast<int>(kLater.count()));  // waits only for a stop request
    }
  }
}

}  // namespace quarry::csi
