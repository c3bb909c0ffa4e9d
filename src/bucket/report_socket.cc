// Why a unix socket and not UDP: any user of the node can send to a port of the loopback, and only the
// gateway's user can send here. Why datagrams: a gateway whose reports are not read loses them, and serves
// on.
#include "bucket/report_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

#include "base/call.h"
#include "base/unix_socket.h"

namespace quarry::bucket {
namespace {

constexpr mode_t kPrivate = 0600;
constexpr size_t kMostDatagram = 16384;  // versitygw's client sends at most 8192 bytes
constexpr std::chrono::seconds kAfterError{1};

void TakeLines(std::string_view text, const std::function<void(std::string_view)>& take) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
    if (!line.empty()) {
      take(line);
    }
  }
}

}  // namespace

Result<UniqueFd> MakeReportSocket(const AbsolutePath& path, Owner sender) {
  QUARRY_ASSIGN(const AbsolutePath fresh,
                AbsolutePath::Parse(fmt::format("{}/.{}.new", path.Parent().str(), path.Name())));
  QUARRY_ASSIGN(const sockaddr_un address, UnixAddress(fresh));
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return ErrnoError("making a socket");
  }
  if (unlink(fresh.c_str()) != 0 && errno != ENOENT) {
    return ErrnoError("removing " + fresh.str());
  }
  // bind(2) gives the file the mode of the socket, less the umask: it is private from its first moment.
  if (fchmod(fd.get(), kPrivate) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoError("binding " + fresh.str());
  }
  if (chmod(fresh.c_str(), kPrivate) != 0 || lchown(fresh.c_str(), sender.user, sender.group) != 0) {
    return ErrnoError("changing the owner of " + fresh.str());
  }
  if (rename(fresh.c_str(), path.c_str()) != 0) {
    return ErrnoError("renaming " + fresh.str());
  }
  return fd;
}

void ReceiveReports(int socket, const std::stop_token& stop,
                    const std::function<void(std::string_view line)>& take) {
  const std::stop_callback wake(stop, [socket] { shutdown(socket, SHUT_RD); });
  std::array<char, kMostDatagram> datagram{};
  while (!stop.stop_requested()) {
    const ssize_t n = recv(socket, datagram.data(), datagram.size(), MSG_TRUNC);
    if (n < 0 && errno != EINTR) {
      (void)Sleep(stop, kAfterError);  // without memory, for example
    } else if (n > 0 && static_cast<size_t>(n) <= datagram.size()) {
      TakeLines({datagram.data(), static_cast<size_t>(n)}, take);
    }
  }
}

}  // namespace quarry::bucket
