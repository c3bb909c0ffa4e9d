#include "daemon/locking/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/path.h"
#include "daemon/locking/lock_holder.h"

namespace quarry::daemon {
namespace {

Status MakeDirectory(const AbsolutePath& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(fmt::format("making directory '{}'", path.str()));
  }
  return Ok();
}

Status WriteHolder(int fd, const std::string& path) {
  const std::string text = DescribeSelf();
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return ErrnoError(fmt::format("writing '{}'", path));
  }
  return Ok();
}

bool IsStill(int fd, const std::string& path) {
  struct stat ours{};
  struct stat there{};
  return fstat(fd, &ours) == 0 && lstat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

Status Lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return Ok();
  }
  if (errno != EWOULDBLOCK) {
    return ErrnoError(fmt::format("locking '{}'", path));
  }
  return Error(Code::kPrecondition, fmt::format("held by {} (lock '{}')", LockHolder(fd, path), path));
}

}  // namespace

Result<NodeLock> NodeLock::Take(const std::string& directory, std::string name) {
  QUARRY_ASSIGN(const AbsolutePath place, AbsolutePath::Parse(directory));
  QUARRY_TRY(MakeDirectory(place.Parent()));
  QUARRY_TRY(MakeDirectory(place));
  std::replace(name.begin(), name.end(), '/', ':');
  const std::string path = fmt::format("{}/{}.lock", place.str(), name);
  for (;;) {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) {
      return ErrnoError(fmt::format("opening lock '{}'", path));
    }
    QUARRY_TRY(Lock(fd.get(), path));
    if (IsStill(fd.get(), path)) {
      QUARRY_TRY(WriteHolder(fd.get(), path));
      return NodeLock(std::move(fd), path);
    }
  }
}

Result<NodeLock> NodeLock::TakeFolder(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening '{}'", path));
  }
  QUARRY_TRY(Lock(fd.get(), path));
  return NodeLock(std::move(fd), path);
}

bool NodeLock::IsThere() const {
  return IsStill(fd_.get(), path_);
}

}  // namespace quarry::daemon
