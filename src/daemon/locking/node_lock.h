// Locks between processes of one node: a volume group has one quarryd, and so has a socket. flock(2) on a
// file that is never removed. It belongs to the open file: the kernel lets go when the last process that has
// it open dies, however it dies. Nobody calls LOCK_UN, which would let go for all of them.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::daemon {

// The same for every quarryd of the host, whatever its settings. Below /run, so that nobody but root can put
// something there first.
inline constexpr const char* kLockDirectory = "/run/quarry/locks";

// Held until destroyed, and for as long as a process lives that was given the descriptor. The file says who
// took it, for people.
class NodeLock {
 public:
  // `name` becomes the file "<name>.lock" ('/' becomes ':'), 0600. Makes the directory and its parent (0700)
  // if need be. kPrecondition if another process has it, naming that process.
  static Result<NodeLock> Take(const std::string& directory, std::string name);
  // On a directory that exists; nothing is written.
  static Result<NodeLock> TakeFolder(const std::string& path);

  // Cannot be read from: a command that has it as its standard input reads nothing there.
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // Whether `path` still is the file that is locked: a lock on a file that was removed excludes nobody.
  bool IsThere() const;

 private:
  NodeLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

}  // namespace quarry::daemon
