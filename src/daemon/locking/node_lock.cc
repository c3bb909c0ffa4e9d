#include "daemon/locking/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

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

// False: another process holds it.
Result<bool> Lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    return true;
  }
  if (errno == EWOULDBLOCK) {
    return false;
  }
  return ErrnoError(fmt::format("locking '{}'", path));
}

Error HeldBy(int fd, const std::string& path, std::string_view who) {
  return Error(Code::kPrecondition,
               fmt::format("{}: held by {} (lock '{}')", who, LockHolder(fd, path), path));
}

std::string PathOf(const std::string& directory, std::string name) {
  std::ranges::replace(name, '/', ':');
  return fmt::format("{}/{}.lock", directory, name);
}

}  // namespace

Result<std::optional<NodeLock>> NodeLock::TryTake(const std::string& directory, const std::string& name) {
  QUARRY_ASSIGN(const AbsolutePath place, AbsolutePath::Parse(directory));
  QUARRY_TRY(MakeDirectory(place.Parent()));
  QUARRY_TRY(MakeDirectory(place));
  const std::string path = PathOf(place.str(), name);
  for (;;) {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) {
      return ErrnoError(fmt::format("opening lock '{}'", path));
    }
    QUARRY_ASSIGN(const bool locked, Lock(fd.get(), path));
    if (!locked) {
      return std::nullopt;
    }
    if (IsStill(fd.get(), path)) {
      QUARRY_TRY(WriteHolder(fd.get(), path));
      return NodeLock(std::move(fd), path);
    }
  }
}

Error NodeLock::Held(const std::string& directory, const std::string& name, std::string_view who) {
  const std::string path = PathOf(directory, name);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  return HeldBy(fd.get(), path, who);
}

Result<NodeLock> NodeLock::Take(const std::string& directory, const std::string& name, std::string_view who) {
  QUARRY_ASSIGN(std::optional<NodeLock> lock, TryTake(directory, name));
  if (!lock.has_value()) {
    return Held(directory, name, who);
  }
  return std::move(*lock);
}

Result<NodeLock> NodeLock::TakeFolder(const std::string& path, std::string_view who) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening '{}'", path));
  }
  QUARRY_ASSIGN(const bool locked, Lock(fd.get(), path));
  if (!locked) {
    return HeldBy(fd.get(), path, who);
  }
  return NodeLock(std::move(fd), path);
}

bool NodeLock::IsThere() const {
  return IsStill(fd_.get(), path_);
}

}  // namespace quarry::daemon
