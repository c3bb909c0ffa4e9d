// Locks between processes of one node: a volume group has one quarryd, and so has a socket. flock(2) on a
// file that is never removed; the kernel lets go when the holder dies, however it dies.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::daemon {

// The same for every quarryd of the node, whatever its settings; containers must share it. Below /run, so
// that nobody but root can put something there first.
inline constexpr const char* kLockDirectory = "/run/quarry/locks";

// Held until destroyed. The file holds the pid of the holder, for people.
class NodeLock {
 public:
  // `name` becomes the file "<name>.lock" ('/' becomes ':'). Makes the directory and its parent (0700) if
  // need be. kPrecondition if another process has it, naming that process.
  static Result<NodeLock> Take(const std::string& directory, std::string name);

 private:
  explicit NodeLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace quarry::daemon
