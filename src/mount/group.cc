#include "mount/group.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "mount/kernel_mount.h"
#include "mount/process_scan.h"

namespace quarry::mount {
namespace {

constexpr mode_t kDirectoryBits = S_ISGID | S_IRWXG;
constexpr mode_t kFileBits = S_IRGRP | S_IWGRP;
constexpr mode_t kPermissions = 07777;

// Bytes of directory entries read at a time.
constexpr size_t kBatchBytes = 32768;
// The deepest 16 levels of the walk remember the directories that are still to be entered. Levels further up
// forget them and are read again.
constexpr size_t kLevelsWithNames = 16;

// Opens one name of an open directory. It never follows a link and never enters another mount, not even a
// bind mount of the same file system. Subvolumes of a btrfs are not mounts. Invalid with errno, as
// openat2(2).
UniqueFd OpenWithin(int directory, const char* name, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_NOFOLLOW | O_CLOEXEC);
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    UniqueFd fd(static_cast<int>(syscall(SYS_openat2, directory, name, &how, sizeof how)));
    if (fd.valid() || (errno != EAGAIN && errno != EINTR)) {
      return fd;
    }
  }
}

// Names are built for errors only.
template <typename Name>
Error Failed(std::string_view what, const Name& name) {
  const int saved_errno = errno;
  return ErrnoError(fmt::format("{} {}", what, name()), saved_errno);
}

template <typename Name>
Result<struct stat> StatusOf(int fd, const Name& name) {
  struct stat st{};
  return fstat(fd, &st) == 0 ? Result<struct stat>(st) : Failed("looking at", name);
}

// Gives one object to the group. `fd` may be O_PATH. Changes nothing that is already right. The group comes
// first, because changing it may clear set-gid. For some groups the kernel sets set-gid only with CAP_FSETID
// and reports no error otherwise, so the permissions are read back.
template <typename Name>
Status Give(int fd, const struct stat& st, uint32_t gid, const Name& name) {
  mode_t mode = st.st_mode & kPermissions;
  if (st.st_gid != gid) {
    if (fchownat(fd, "", static_cast<uid_t>(-1), gid, AT_EMPTY_PATH) != 0) {
      return Failed("changing the group of", name);
    }
    // When the group of an executable changes, the kernel clears its set-id bits (chown(2)). The chmod below
    // must not set them again: the program would act for a group that it did not belong to.
    mode &= S_ISDIR(st.st_mode) ? kPermissions : ~static_cast<mode_t>(S_ISUID | S_ISGID);
  }
  const mode_t added = S_ISDIR(st.st_mode) ? kDirectoryBits : kFileBits;
  if (S_ISLNK(st.st_mode) || (mode & added) == added) {
    return Ok();
  }
  // fchmod(2) does not accept O_PATH, so this uses the path in /proc. The object is not a link, so the path
  // leads to the object itself.
  if (fchmod(fd, mode | added) != 0 &&
      (errno != EBADF || chmod(fmt::format("/proc/self/fd/{}", fd).c_str(), mode | added) != 0)) {
    return Failed("changing the permissions of", name);
  }
  QUARRY_ASSIGN(const struct stat now, StatusOf(fd, name));
  if ((now.st_mode & added) != added) {
    return Error(Code::kPrecondition,
                 fmt::format("{} has permissions {:o} where they should include {:o}: the kernel keeps "
                             "set-gid only for a process with CAP_FSETID",
                             name(), now.st_mode & kPermissions, added));
  }
  return Ok();
}

// Whether the object cannot be changed although its file system is writable: it is immutable or append-only
// (chattr(1)), or in a read-only subvolume of a btrfs. `error`: the errno of the failed change.
bool IsFrozen(int fd, int error) {
  if (error == EPERM) {
    struct statx about{};
    return statx(fd, "", AT_EMPTY_PATH, 0, &about) == 0 &&
           (about.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0;
  }
  struct statvfs about{};
  return error == EROFS && fstatvfs(fd, &about) == 0 && (about.f_flag & ST_RDONLY) == 0;
}

// A position in the entries of a directory: behind the entry with the kernel's number `cookie`, and behind
// `skip` more entries. The number stays valid when the directory is opened again; NFS relies on that. Some
// file systems give several names the same number, and `skip` tells those apart.
struct Position {
  off64_t cookie = 0;
  size_t skip = 0;
};

// Walks everything below a root in constant memory, whatever a tenant has put there. The walk has at most two
// directories open, reads names in batches, and forgets the names of levels far above. It returns through
// "..", and proves that ".." is the directory that it came from.
class Walk {
 public:
  Walk(std::string top, uint32_t gid, const Call& call)
      : top_(std::move(top)),
        gid_(gid),
        what_(fmt::format("giving {} to group {}", top_, gid)),
        call_(call) {}

  Status Below(int root) {
    UniqueFd here = OpenWithin(root, ".", O_RDONLY | O_DIRECTORY);
    if (!here.valid()) {
      return ErrnoError(fmt::format("opening {}", top_));
    }
    QUARRY_TRY(Enter(here.get()));
    while (!levels_.empty()) {
      QUARRY_TRY(call_.Check(what_));
      Level& level = levels_.back();
      if (!level.waiting.empty()) {
        QUARRY_TRY(Descend(here));
      } else if (!level.read) {
        QUARRY_TRY(ReadBatch(here.get(), level));
      } else {
        QUARRY_TRY(Leave(here));
      }
    }
    return Ok();
  }

 private:
  struct Waiting {
    std::string name;
    Position after;
  };
  struct Level {
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<Waiting> waiting;  // directories of the last batch still to be entered, in reverse order
    Position entered;              // after the last directory that was entered
    Position next;                 // position of the entries not read yet
    bool read = false;             // all entries were read
  };

  // One object must not block a pod's volume forever, so objects that cannot be changed are skipped.
  template <typename Name>
  Status GiveBelow(int fd, const struct stat& st, const Name& name) {
    Status given = Give(fd, st, gid_, name);
    return !given.has_value() && IsFrozen(fd, given.error().sys_errno()) ? Ok() : given;
  }

  // For messages: the kernel's name of an open directory, and a name in it.
  std::string PathOf(int directory, std::string_view name = "") const {
    std::string path = ReadLink(fmt::format("/proc/self/fd/{}", directory));
    path = path.empty() ? "a directory deep below " + top_ : path;
    return name.empty() ? path : fmt::format("{}/{}", path, name);
  }

  // The error for a name that openat2(2) could not open.
  Error CannotOpen(int directory, const std::string& name) const {
    const int saved_errno = errno;
    const std::string path = PathOf(directory, name);
    switch (saved_errno) {
      case EXDEV:
        return Error(Code::kPrecondition, fmt::format("something is mounted on {}", path)).WithErrno(EXDEV);
      case ENOTDIR:
      case ELOOP:
        return Error(Code::kUnavailable, fmt::format("{} was replaced meanwhile", path))
            .WithErrno(saved_errno);
      default:
        return ErrnoError(fmt::format("opening {}", path), saved_errno);
    }
  }

  // Starts a level and gives the directory to the group, unless it is the root.
  Status Enter(int directory) {
    const auto path = [&] { return PathOf(directory); };
    QUARRY_ASSIGN(const struct stat st, StatusOf(directory, path));
    if (levels_.size() > kDeepestTree) {
      return Error(Code::kPrecondition,
                   fmt::format("{}: directories are nested more than {} levels deep", path(), kDeepestTree));
    }
    const bool root = levels_.empty();
    Level& level = levels_.emplace_back();
    level.device = st.st_dev;
    level.inode = st.st_ino;
    if (levels_.size() > kLevelsWithNames) {
      Forget(levels_[levels_.size() - 1 - kLevelsWithNames]);
    }
    return root ? Ok() : GiveBelow(directory, st, path);
  }

  static void Forget(Level& level) {
    if (level.waiting.empty()) {
      return;
    }
    std::vector<Waiting>().swap(level.waiting);
    level.next = level.entered;
    level.read = false;
  }

  Status Descend(UniqueFd& here) {
    Level& level = levels_.back();
    const Waiting child = std::move(level.waiting.back());
    level.waiting.pop_back();
    level.entered = child.after;
    UniqueFd next = OpenWithin(here.get(), child.name.c_str(), O_RDONLY | O_DIRECTORY);
    if (!next.valid()) {
      return errno == ENOENT ? Ok() : Status(CannotOpen(here.get(), child.name));  // removed since
    }
    here = std::move(next);
    return Enter(here.get());
  }

  // Gives everything that is not a directory, and stores the names of directories.
  Status ReadBatch(int directory, Level& level) {
    const auto path = [&] { return PathOf(directory); };
    if (lseek64(directory, level.next.cookie, SEEK_SET) < 0) {
      return Failed("reading", path);
    }
    const ssize_t length = getdents64(directory, batch_.data(), batch_.size());
    if (length < 0) {
      if (errno != ENOENT) {
        return Failed("reading", path);
      }
      level.read = true;  // a directory that was removed while open has no entries
      return Ok();
    }
    size_t skip = level.next.skip;
    Position at{level.next.cookie, 0};
    for (size_t offset = 0; offset < static_cast<size_t>(length);) {
      const auto* entry = reinterpret_cast<const dirent64*>(batch_.data() + offset);
      offset += entry->d_reclen;
      at = entry->d_off == at.cookie ? Position{at.cookie, at.skip + 1} : Position{entry->d_off, 0};
      if (skip > 0) {
        --skip;
        continue;
      }
      const std::string name = entry->d_name;
      if (name == "." || name == "..") {
        continue;
      }
      if (entry->d_type == DT_DIR) {
        level.waiting.push_back({name, at});
      } else {  // some file systems do not report the type
        QUARRY_TRY(Visit(directory, name, at, level));
      }
    }
    if (length > 0 && at.cookie == level.next.cookie && at.skip <= level.next.skip) {
      return Error(Code::kUnsupported,
                   fmt::format("{}: the file system gives too many names the same d_off", path()));
    }
    level.read = length == 0;
    level.next = at;
    std::reverse(level.waiting.begin(), level.waiting.end());
    return Ok();
  }

  Status Visit(int directory, const std::string& name, const Position& after, Level& level) {
    const UniqueFd fd = OpenWithin(directory, name.c_str(), O_PATH);
    if (!fd.valid()) {
      return errno == ENOENT ? Ok() : Status(CannotOpen(directory, name));
    }
    const auto path = [&] { return PathOf(directory, name); };
    QUARRY_ASSIGN(const struct stat st, StatusOf(fd.get(), path));
    if (S_ISDIR(st.st_mode)) {
      level.waiting.push_back({name, after});
      return Ok();
    }
    return GiveBelow(fd.get(), st, path);
  }

  // Returns one level up, unless this is the root.
  Status Leave(UniqueFd& here) {
    levels_.pop_back();
    if (levels_.empty()) {
      return Ok();
    }
    UniqueFd above = OpenWithin(here.get(), "..", O_RDONLY | O_DIRECTORY);
    if (!above.valid()) {
      return Failed("returning from", [&] { return PathOf(here.get()); });
    }
    QUARRY_ASSIGN(const struct stat st, StatusOf(above.get(), [&] { return PathOf(above.get()); }));
    if (st.st_dev != levels_.back().device || st.st_ino != levels_.back().inode) {
      return Error(Code::kUnavailable, fmt::format("{} was moved meanwhile", PathOf(here.get())));
    }
    here = std::move(above);
    return Ok();
  }

  const std::string top_;
  const uint32_t gid_;
  const std::string what_;
  const Call& call_;
  std::vector<Level> levels_;
  alignas(dirent64) std::array<char, kBatchBytes> batch_{};
};

}  // namespace

Status GiveTree(int root, const std::string& name, uint32_t gid, const Call& call) {
  const auto top = [&] { return name; };
  QUARRY_ASSIGN(const struct stat st, StatusOf(root, top));
  if (st.st_gid == gid && (st.st_mode & kDirectoryBits) == kDirectoryBits) {
    return Ok();
  }
  QUARRY_TRY(Walk(name, gid, call).Below(root));
  // The root is last: a root that belongs to the group proves that everything below was given too.
  return Give(root, st, gid, top);
}

Result<uint32_t> KernelMount::GroupOf(const AbsolutePath& path) {
  QUARRY_ASSIGN(const UniqueFd fd, OpenPath(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  QUARRY_ASSIGN(const struct stat st, StatusOf(fd.get(), [&] { return path.str(); }));
  return uint32_t{st.st_gid};
}

Status KernelMount::GiveToGroup(const AbsolutePath& mount_point, uint32_t gid, const Call& call) {
  const std::string what = fmt::format("giving {} to group {}", mount_point.str(), gid);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Place place, Look(mount_point).Context(what));
  struct statvfs about{};
  if (!place.mount_root || place.kind() != PathKind::kDirectory) {
    return Error(Code::kPrecondition, fmt::format("{}: it is not the mount point of a file system", what));
  }
  if (fstatvfs(place.fd.get(), &about) != 0) {
    return ErrnoError(what);
  }
  if ((about.f_flag & ST_RDONLY) != 0) {
    return Error(Code::kPrecondition, fmt::format("{}: it is mounted read-only", what));
  }
  return GiveTree(place.fd.get(), mount_point.str(), gid, call);
}

}  // namespace quarry::mount
