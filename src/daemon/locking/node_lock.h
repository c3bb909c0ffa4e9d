// Locks between processes of one node: one quarryd per volume group, and one per socket. A lock is a flock(2)
// on a file that is never removed. The lock belongs to the open file: the kernel releases it when the last
// process that has the file open ends, for whatever reason. quarryd never calls LOCK_UN for such a file: that
// would release the lock for all of these processes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::daemon {

// The same path for every quarryd, whatever its settings. In a container it may lie in the container's own
// /run. Only root can create files below /run.
inline constexpr const char* kLockDirectory = "/run/quarry/locks";

// A lock of this process. It lasts until the object is destroyed and all processes that were given the
// descriptor have ended. The file names the process that took the lock, for administrators.
class NodeLock {
 public:
  static constexpr std::string_view kTaken = "it is taken";

  // The file is "<name>.lock" ('/' becomes ':'), mode 0600. Makes the directory and its parent (0700) if
  // needed. nullopt: another process holds the lock.
  static Result<std::optional<NodeLock>> TryTake(const std::string& directory, const std::string& name);
  // The same, but kPrecondition if another process holds the lock. The error begins with `who` and names
  // that process, which is looked for in all of /proc.
  static Result<NodeLock> Take(const std::string& directory, const std::string& name,
                               std::string_view who = kTaken);
  // Says who holds the lock that TryTake did not get.
  static Error Held(const std::string& directory, const std::string& name, std::string_view who);
  // Locks an existing directory; writes nothing. Errors as Take.
  static Result<NodeLock> TakeFolder(const std::string& path, std::string_view who = kTaken);

  // Not readable: a command that gets it as standard input reads nothing.
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // Whether `path` is still the locked file. A lock on a removed file excludes no other process.
  bool IsThere() const;

 private:
  NodeLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

}  // namespace quarry::daemon
