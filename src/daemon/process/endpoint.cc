#include "daemon/process/endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "daemon/locking/lock_holder.h"

namespace quarry::daemon {
namespace {

Status CheckDirectory(const AbsolutePath& directory) {
  struct stat status{};
  if (stat(directory.c_str(), &status) != 0) {
    return ErrnoError(fmt::format("directory '{}' of the socket", directory.str()));
  }
  if (!S_ISDIR(status.st_mode)) {
    return Error(Code::kPrecondition,
                 fmt::format("'{}', which must hold the socket, is not a directory", directory.str()));
  }
  return Ok();
}

int PeerPid(int fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
}

// OK if no process accepts connections at `path`. A full backlog (EAGAIN) means that a process does.
Status CheckUnserved(const AbsolutePath& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return ErrnoError("making a socket");
  }
  QUARRY_ASSIGN(const sockaddr_un address, UnixAddress(path));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return Error(
        Code::kPrecondition,
        fmt::format("socket '{}' is already served by {}; stop that process or choose another endpoint",
                    path.str(), ProcessName(PeerPid(fd.get()))));
  }
  if (errno == EAGAIN) {
    return Error(Code::kPrecondition,
                 fmt::format("socket '{}' is already served by another process, which is busy", path.str()));
  }
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return ErrnoError(fmt::format("checking whether a process serves socket '{}'", path.str()));
  }
  return Ok();
}

}  // namespace

Status ClaimSocket(const AbsolutePath& path) {
  QUARRY_TRY(CheckDirectory(path.Parent()));
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? Ok() : Status(ErrnoError(fmt::format("'{}'", path.str())));
  }
  if (!S_ISSOCK(status.st_mode)) {
    return Error(Code::kPrecondition,
                 fmt::format("'{}' exists and is not a socket; quarryd does not replace it", path.str()));
  }
  QUARRY_TRY(CheckUnserved(path));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(fmt::format("removing the stale socket '{}'", path.str()));
  }
  return Ok();
}

}  // namespace quarry::daemon
