// Paths that an orchestrator names. A path is opened once and then used through its descriptor: openat2(2)
// and the *at calls. Properties are read from the descriptor, so replacing the path meanwhile has no effect.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// The object at a path, held open (O_PATH).
struct Place {
  UniqueFd fd;
  mode_t mode = 0;
  DeviceNumber node;         // of a device node
  DeviceNumber file_system;  // st_dev
  uint64_t inode = 0;
  uint64_t size = 0;
  uint64_t mount_id = 0;
  bool mount_root = false;  // a mount point: something is mounted exactly here

  PathKind kind() const;
};

// `flags` are those of open(2). O_CLOEXEC is added; O_NOFOLLOW is the caller's choice. Links of /proc are
// never followed. kNotFound: the path does not exist. kPrecondition: the path leads through a symbolic link
// that is not followed.
Result<UniqueFd> OpenPath(const AbsolutePath& path, int flags);
// Finds any object, including a symbolic link.
Result<Place> Look(const AbsolutePath& path);
// Directory of the last component, O_PATH. kInvalidArgument for "/".
Result<UniqueFd> OpenParent(const AbsolutePath& path);

// The path of `name` in the open directory `fd`, for system calls that accept only paths. The path leads
// through the descriptor, so it always reaches this directory in this mount.
std::string ThroughFd(int fd, std::string_view name);

}  // namespace quarry::mount
