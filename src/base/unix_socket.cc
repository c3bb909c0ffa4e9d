#include "base/unix_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace quarry {

Result<sockaddr_un> UnixAddress(const AbsolutePath& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.str().size() >= sizeof(address.sun_path)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}' is too long for the path of a socket", path.str()));
  }
  std::memcpy(address.sun_path, path.c_str(), path.str().size() + 1);
  return address;
}

SocketFile::SocketFile(AbsolutePath path) : path_(std::move(path)) {
  struct stat status{};
  if (lstat(path_.c_str(), &status) == 0) {
    bound_ = status;
  }
}

bool SocketFile::InPlace() const {
  struct stat now{};
  return bound_.st_ino != 0 && lstat(path_.c_str(), &now) == 0 && now.st_ino == bound_.st_ino &&
         now.st_dev == bound_.st_dev;
}

void SocketFile::Remove() const {
  if (InPlace()) {
    unlink(path_.c_str());
  }
}

}  // namespace quarry
