#include "daemon/node_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/path.h"
#include "daemon/process_name.h"

namespace quarry::daemon {
namespace {

Status MakeDirectory(const AbsolutePath& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(fmt::format("making directory '{}'", path.str()));
  }
  return Ok();
}

int ReadPid(int fd) {
  std::array<char, 16> text{};
  const ssize_t got = pread(fd, text.data(), text.size() - 1, 0);
  return got > 0 ? std::atoi(text.data()) : 0;
}

Status WritePid(int fd, const std::string& path) {
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return ErrnoError(fmt::format("writing '{}'", path));
  }
  return Ok();
}

// Whether `path` still is the file behind `fd`: a lock on a file that somebody removed excludes nobody.
bool IsStill(int fd, const std::string& path) {
  struct stat ours{};
  struct stat there{};
  return fstat(fd, &ours) == 0 && lstat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

}  // namespace

Result<NodeLock> NodeLock::Take(const std::string& directory, std::string name) {
  QUARRY_ASSIGN(const AbsolutePath place, AbsolutePath::Parse(directory));
  QUARRY_TRY(MakeDirectory(place.Parent()));
  QUARRY_TRY(MakeDirectory(place));
  std::replace(name.begin(), name.end(), '/', ':');
  const std::string path = fmt::format("{}/{}.lock", place.str(), name);
  for (;;) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) {
      return ErrnoError(fmt::format("opening lock '{}'", path));
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) {
        return ErrnoError(fmt::format("locking '{}'", path));
      }
      return Error(Code::kPrecondition,
                   fmt::format("{} has it (lock '{}')", ProcessName(ReadPid(fd.get())), path));
    }
    if (IsStill(fd.get(), path)) {
      QUARRY_TRY(WritePid(fd.get(), path));
      return NodeLock(std::move(fd));
    }
  }
}

}  // namespace quarry::daemon
