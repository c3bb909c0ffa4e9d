// Paths that a CO names, opened once and acted on through descriptors: openat2(2) and the *at calls. What a
// path says is looked at on the descriptor, so that a swap of the path in between changes nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// What stands at a path, held open (O_PATH).
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

// Stateless but for its roots; any thread.
class Paths {
 public:
  // Below each of `roots` no symbolic link is followed anywhere, and nothing leads out of it; a root itself
  // may be reached through links. Elsewhere links are followed, but for the last component. Links of /proc
  // never are.
  explicit Paths(std::vector<AbsolutePath> roots = {}) : roots_(std::move(roots)) {}

  // `flags` as of open(2); O_CLOEXEC is added, O_NOFOLLOW is the caller's to say. kNotFound: nothing stands
  // there. kPrecondition: the path leads through a symbolic link where none may be.
  Result<UniqueFd> Open(const AbsolutePath& path, int flags) const;
  // Whatever stands there, a symbolic link too.
  Result<Place> Look(const AbsolutePath& path) const;
  // Directory of the last component, O_PATH. kInvalidArgument for "/".
  Result<UniqueFd> OpenParent(const AbsolutePath& path) const;

  // As in MountApi.
  Result<AbsolutePath> Resolve(const AbsolutePath& path) const;
  Result<PathKind> Inspect(const AbsolutePath& path) const;
  Result<std::optional<DeviceNumber>> BlockDeviceAt(const AbsolutePath& path) const;
  static Result<std::optional<DeviceNumber>> FileSystemOfNode(const std::string& node, DeviceNumber device);
  Status MakeDirectory(const AbsolutePath& path) const;
  Status MakeFile(const AbsolutePath& path) const;
  Status MakeFileFromDirectory(const AbsolutePath& path) const;
  Status RemovePath(const AbsolutePath& path) const;
  Result<FilesystemUsage> Usage(const AbsolutePath& path) const;

 private:
  // Why the directory at `path` could not be opened: the first link in it that leads nowhere or in a circle.
  Error WhyNot(const AbsolutePath& path, Error error) const;

  std::vector<AbsolutePath> roots_;
};

// A name of an open directory for calls that take paths only. The descriptor pins the mount it is in.
std::string ThroughFd(int fd, std::string_view name);

}  // namespace quarry::mount
