#include "lvm/run/group_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include <fmt/format.h>

#include "base/call_record.h"

namespace quarry::lvm {
namespace {

using std::chrono::milliseconds;

// Only a signal ends a flock(2) that waits, so the lock is requested without waiting, again and again.
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{5};

// Each process that releases a lock removes the lock's file. A lock on a removed file excludes no process.
bool IsAt(int fd, const std::string& path) {
  struct stat held{};
  struct stat named{};
  return fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

Result<UniqueFd> Lock(const std::string& path, int operation, const Call& call) {
  const std::string what = fmt::format("waiting for LVM's lock {}", path);
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    QUARRY_TRY(call.Check(what));
    UniqueFd fd(open(path.c_str(), O_CREAT | O_APPEND | O_RDWR | O_CLOEXEC, 0777));
    if (!fd.valid()) {
      return ErrnoError(fmt::format("opening LVM's lock file {}", path)).As(Code::kUnavailable);
    }
    if (flock(fd.get(), operation | LOCK_NB) == 0) {
      if (IsAt(fd.get(), path)) {
        return fd;
      }
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoError(fmt::format("locking {}", path)).As(Code::kUnavailable);
    }
    std::this_thread::sleep_for(pause);
  }
}

// Removes the file, as LVM does, unless another process holds a lock on it.
void LetGo(const std::string& path, const UniqueFd& fd) {
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && IsAt(fd.get(), path)) {
    unlink(path.c_str());
  }
  // Closing is not enough: a child that is about to start its program has the same descriptor for a moment.
  flock(fd.get(), LOCK_UN);
}

}  // namespace

Result<GroupLock> GroupLock::Take(const std::string& locking_dir, const std::string& group, Mode mode,
                                  const Call& call) {
  const TimedStep step(
      call, [&] { return fmt::format("wait for LVM's lock of volume group {}", group); }, kLeastWait);
  const std::string path = fmt::format("{}/V_{}", locking_dir, group);
  const std::string first = path + ":aux";
  // A writer keeps this lock until there are no more readers. So no reader overtakes a writer, and
  // overlapping readers do not make a writer wait forever.
  QUARRY_ASSIGN(const UniqueFd turn, Lock(first, LOCK_EX, call));
  if (mode == Mode::kRead) {
    LetGo(first, turn);
  }
  auto fd = Lock(path, mode == Mode::kRead ? LOCK_SH : LOCK_EX, call);
  if (mode == Mode::kWrite) {
    LetGo(first, turn);
  }
  if (!fd.has_value()) {
    return std::move(fd.error());
  }
  return GroupLock(path, std::move(*fd));
}

GroupLock::~GroupLock() {
  if (fd_.valid()) {
    LetGo(path_, fd_);
  }
}

}  // namespace quarry::lvm
