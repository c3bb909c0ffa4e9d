// Unix sockets by their paths.
#pragma once

#include <sys/stat.h>
#include <sys/un.h>

#include "base/path.h"
#include "base/result.h"

namespace quarry {

// The address of a socket at `path`. kInvalidArgument: the path is too long for one.
Result<sockaddr_un> UnixAddress(const AbsolutePath& path);

// The file of a socket that this process has just bound. Another process may remove or replace the file. The
// number of a closed socket's file may be given to another file, so use this only while the socket is open.
// Const methods may be called from any thread.
class SocketFile {
 public:
  explicit SocketFile(AbsolutePath path);

  const AbsolutePath& path() const { return path_; }
  // Whether the path still leads to this socket.
  bool InPlace() const;
  // Removes the file, unless the path leads to something else by now. Best effort.
  void Remove() const;

 private:
  AbsolutePath path_;
  struct stat bound_{};  // all zeroes: there was no file
};

}  // namespace quarry
