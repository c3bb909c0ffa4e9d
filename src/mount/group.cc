// Giving a file system to a group (VOLUME_MOUNT_GROUP): what others do with a mount option, which ext4, xfs
// and btrfs do not have.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "mount/kernel_mount.h"

namespace quarry::mount {
namespace {

constexpr mode_t kDirectoryBits = S_ISGID | S_IRWXG;
constexpr mode_t kFileBits = S_IRGRP | S_IWGRP;
constexpr mode_t kPermissions = 07777;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// One name of an open directory: never through a link, never onto another mount, not even a bind mount of the
// same file system. Subvolumes of a btrfs are no mounts. Invalid with errno, as openat2(2).
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

// Names are made for errors only: of a deep tree each would be a long one.
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

// `fd` may be O_PATH. Writes only what differs.
template <typename Name>
Status Give(int fd, const struct stat& st, uint32_t gid, const Name& name) {
  mode_t mode = st.st_mode & kPermissions;
  if (st.st_gid != gid) {
    if (fchownat(fd, "", static_cast<uid_t>(-1), gid, AT_EMPTY_PATH) != 0) {
      return Failed("changing the group of", name);
    }
    // As the kernel has done just now: a program does not act in the name of a group that it was not of.
    mode &= S_ISDIR(st.st_mode) ? kPermissions : ~static_cast<mode_t>(S_ISUID | S_ISGID);
  }
  const mode_t wanted = mode | (S_ISDIR(st.st_mode) ? kDirectoryBits : kFileBits);
  if (S_ISLNK(st.st_mode) || wanted == mode) {
    return Ok();
  }
  // By way of /proc, for fchmod(2) does not take O_PATH; it is no link, so this is the object itself.
  if (chmod(fmt::format("/proc/self/fd/{}", fd).c_str(), wanted) != 0) {
    return Failed("changing the permissions of", name);
  }
  return Ok();
}

// A walk over everything below a root. However deep the tree, it has two directories open at most: what a
// directory holds is read to the end before the first of its directories is entered, and the way back is
// "..", proven to be where it came from.
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
    QUARRY_TRY(Enter(here.get(), ""));
    while (!levels_.empty()) {
      if (levels_.back().directories.empty()) {
        QUARRY_TRY(Leave(here));
        continue;
      }
      const std::string name = std::move(levels_.back().directories.back());
      levels_.back().directories.pop_back();
      UniqueFd next = OpenWithin(here.get(), name.c_str(), O_RDONLY | O_DIRECTORY);
      if (!next.valid() && errno == ENOENT) {
        continue;  // removed since
      }
      if (!next.valid()) {
        return CannotOpen(name);
      }
      here = std::move(next);
      QUARRY_TRY(Enter(here.get(), name));
    }
    return Ok();
  }

 private:
  struct Level {
    std::string name;
    dev_t device;
    ino_t inode;
    std::vector<std::string> directories;  // still to be entered
  };

  std::string PathOf(const std::string& name) const {
    std::string path = top_;
    for (const Level& level : levels_) {
      path += level.name.empty() ? "" : "/" + level.name;
    }
    return name.empty() ? path : path + "/" + name;
  }

  Error CannotOpen(const std::string& name) const {
    if (errno == EXDEV) {
      return Error(Code::kPrecondition, fmt::format("something is mounted on {}", PathOf(name)))
          .WithErrno(EXDEV);
    }
    return Failed("opening", [&] { return PathOf(name); });
  }

  // Everything in `directory` that is no directory is given, and `directory` itself, unless it is the root.
  Status Enter(int directory, const std::string& name) {
    QUARRY_ASSIGN(const struct stat st, StatusOf(directory, [&] { return PathOf(name); }));
    levels_.push_back({name, st.st_dev, st.st_ino, {}});
    const auto here = [&] { return PathOf(""); };
    if (!name.empty()) {
      QUARRY_TRY(Give(directory, st, gid_, here));
    }
    UniqueFd reader(fcntl(directory, F_DUPFD_CLOEXEC, 0));
    const std::unique_ptr<DIR, CloseDirectory> list(fdopendir(reader.get()));
    if (list == nullptr) {
      return Failed("reading", here);
    }
    (void)reader.Release();  // the list's now
    for (;;) {
      QUARRY_TRY(call_.Check(what_));
      errno = 0;
      const dirent* entry = readdir(list.get());
      if (entry == nullptr) {
        return errno == 0 ? Ok() : Status(Failed("reading", here));
      }
      const std::string child = entry->d_name;
      if (child != "." && child != "..") {
        QUARRY_TRY(Visit(directory, child));
      }
    }
  }

  Status Visit(int directory, const std::string& name) {
    const UniqueFd fd = OpenWithin(directory, name.c_str(), O_PATH);
    if (!fd.valid()) {
      return errno == ENOENT ? Ok() : Status(CannotOpen(name));
    }
    const auto path = [&] { return PathOf(name); };
    QUARRY_ASSIGN(const struct stat st, StatusOf(fd.get(), path));
    if (S_ISDIR(st.st_mode)) {
      levels_.back().directories.push_back(name);
      return Ok();
    }
    return Give(fd.get(), st, gid_, path);
  }

  // One level up, unless this is the root.
  Status Leave(UniqueFd& here) {
    const std::string left = std::move(levels_.back().name);
    levels_.pop_back();
    if (levels_.empty()) {
      return Ok();
    }
    const auto from = [&] { return PathOf(left); };
    here = OpenWithin(here.get(), "..", O_RDONLY | O_DIRECTORY);
    if (!here.valid()) {
      return Failed("going back from", from);
    }
    QUARRY_ASSIGN(const struct stat st, StatusOf(here.get(), [&] { return PathOf(""); }));
    if (st.st_dev != levels_.back().device || st.st_ino != levels_.back().inode) {
      return Error(Code::kUnavailable, fmt::format("{} was moved meanwhile", from()));
    }
    return Ok();
  }

  const std::string top_;
  const uint32_t gid_;
  const std::string what_;
  const Call& call_;
  std::vector<Level> levels_;
};

}  // namespace

Result<uint32_t> KernelMount::GroupOf(const AbsolutePath& path) {
  QUARRY_ASSIGN(const UniqueFd fd, paths_.Open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  QUARRY_ASSIGN(const struct stat st, StatusOf(fd.get(), [&] { return path.str(); }));
  return uint32_t{st.st_gid};
}

Status KernelMount::GiveToGroup(const AbsolutePath& mount_point, uint32_t gid, const Call& call) {
  const std::string what = fmt::format("giving {} to group {}", mount_point.str(), gid);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Place place, paths_.Look(mount_point).Context(what));
  struct statvfs about{};
  if (!place.mount_root || place.kind() != PathKind::kDirectory) {
    return Error(Code::kPrecondition, fmt::format("{}: it is no mount point of a file system", what));
  }
  if (fstatvfs(place.fd.get(), &about) != 0) {
    return ErrnoError(what);
  }
  if ((about.f_flag & ST_RDONLY) != 0) {
    return Error(Code::kPrecondition, fmt::format("{}: it is mounted read-only", what));
  }
  QUARRY_ASSIGN(const struct stat st, StatusOf(place.fd.get(), [&] { return mount_point.str(); }));
  if (st.st_gid == gid && (st.st_mode & kDirectoryBits) == kDirectoryBits) {
    return Ok();
  }
  QUARRY_TRY(Walk(mount_point.str(), gid, call).Below(place.fd.get()));
  // The group is the last thing to change: a root that has it was given to it as a whole.
  if (chmod(fmt::format("/proc/self/fd/{}", place.fd.get()).c_str(),
            (st.st_mode & kPermissions) | kDirectoryBits) != 0 ||
      fchownat(place.fd.get(), "", static_cast<uid_t>(-1), gid, AT_EMPTY_PATH) != 0) {
    return ErrnoError(what);
  }
  return Ok();
}

}  // namespace quarry::mount
