#include "mount/paths.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>

#include <fmt/format.h>

#include "mount/kernel_mount.h"

namespace quarry::mount {
namespace {

// openat2(2) may fail with EAGAIN if a directory is renamed during the walk. The walk is then repeated, at
// most this many times.
constexpr int kWalkAttempts = 32;

// Others cannot enter the bare mount point. The mounted file system decides who may access its content.
constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kFileMode = 0640;

int OpenAt2(const char* path, int flags, uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = resolve;
  for (int attempt = 0;; ++attempt) {
    const auto fd = static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
    if (fd >= 0 || attempt == kWalkAttempts || (errno != EAGAIN && errno != EINTR)) {
      return fd;
    }
  }
}

Error WalkFailure(const std::string& path, int saved_errno) {
  switch (saved_errno) {
    case ELOOP:
      return Error(Code::kPrecondition, fmt::format("{} leads through a symbolic link", path))
          .WithErrno(saved_errno);
    case ENOTDIR:
      return Error(Code::kNotFound, fmt::format("{}: a component of it is not a directory", path))
          .WithErrno(saved_errno);
    case EACCES:
    case EPERM:
      return ErrnoError(fmt::format("opening {}", path), saved_errno).As(Code::kUnavailable);
    default:
      return ErrnoError(fmt::format("opening {}", path), saved_errno);
  }
}

Result<Place> Describe(UniqueFd fd, const std::string& path) {
  struct statx st{};
  if (statx(fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID, &st) != 0) {
    return ErrnoError(fmt::format("looking at {}", path));
  }
  Place place;
  place.fd = std::move(fd);
  place.mode = st.stx_mode;
  place.node = {st.stx_rdev_major, st.stx_rdev_minor};
  place.file_system = {st.stx_dev_major, st.stx_dev_minor};
  place.inode = st.stx_ino;
  place.size = st.stx_size;
  place.mount_id = st.stx_mnt_id;
  place.mount_root = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  return place;
}

bool IsSamePlace(const Place& a, const Place& b) {
  return a.mount_id == b.mount_id && a.file_system == b.file_system && a.inode == b.inode;
}

// The name that /proc gives an open directory: a path without links, unless the directory was removed or
// moved meanwhile.
Result<std::string> NameOf(const UniqueFd& fd) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length =
      readlink(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), text.data(), text.size());
  return length >= 0 ? Result<std::string>(std::string(text.data(), static_cast<size_t>(length)))
                     : ErrnoError("reading the path of a directory from /proc").As(Code::kUnavailable);
}

Error Refusal(const AbsolutePath& path, std::string_view why) {
  return {Code::kPrecondition, fmt::format("{} {}", path.str(), why)};
}

// The reason why the directory at `path` could not be opened: the first link in it that leads nowhere or in a
// circle.
Error WhyNot(const AbsolutePath& path, Error error) {
  const std::string& text = path.str();
  for (size_t slash = text.find('/', 1); slash != std::string::npos; slash = text.find('/', slash + 1)) {
    const auto above = AbsolutePath::Parse(std::string_view(text).substr(0, slash));
    const auto place = above.has_value() ? Look(*above) : Result<Place>(above.error());
    if (!place.has_value()) {
      return error;  // the path simply does not exist
    }
    const auto led = S_ISLNK(place->mode) ? OpenPath(*above, O_PATH) : Result<UniqueFd>(UniqueFd());
    if (led.has_value()) {
      continue;
    }
    const std::string link = fmt::format("{} leads through the symbolic link {}", text, above->str());
    switch (led.error().code()) {
      case Code::kNotFound:
        return Error(Code::kPrecondition, link + ", and that leads nowhere").WithErrno(ENOENT);
      case Code::kPrecondition:
        return Error(Code::kPrecondition, link + ", and that leads in a circle or must not be followed there")
            .WithErrno(ELOOP);
      default:
        return error;
    }
  }
  return error;
}

// As Look; nullopt: the path does not exist.
Result<std::optional<Place>> LookIfThere(const AbsolutePath& path) {
  auto place = Look(path);
  if (!place.has_value() && place.error().code() == Code::kNotFound) {
    return std::optional<Place>();
  }
  QUARRY_ASSIGN(Place found, std::move(place));
  return std::optional(std::move(found));
}

}  // namespace

PathKind Place::kind() const {
  return S_ISDIR(mode) ? PathKind::kDirectory : S_ISREG(mode) ? PathKind::kFile : PathKind::kOther;
}

std::string ThroughFd(int fd, std::string_view name) {
  return fmt::format("/proc/self/fd/{}/{}", fd, name);
}

Result<UniqueFd> OpenPath(const AbsolutePath& path, int flags) {
  UniqueFd fd(OpenAt2(path.c_str(), flags, RESOLVE_NO_MAGICLINKS));
  return fd.valid() ? Result<UniqueFd>(std::move(fd)) : WalkFailure(path.str(), errno);
}

Result<Place> Look(const AbsolutePath& path) {
  QUARRY_ASSIGN(UniqueFd fd, OpenPath(path, O_PATH | O_NOFOLLOW));
  return Describe(std::move(fd), path.str());
}

Result<UniqueFd> OpenParent(const AbsolutePath& path) {
  if (path.str() == "/") {
    return Error(Code::kInvalidArgument, "the root directory cannot be the path of a volume");
  }
  return OpenPath(path.Parent(), O_PATH | O_DIRECTORY);
}

// Uses the kernel's name of the open directory, and proves it: a walk that follows no link must lead to the
// same directory in the same mount.
Result<AbsolutePath> KernelMount::Resolve(const AbsolutePath& path) {
  if (path.str() == "/") {
    return path;
  }
  const std::string what = fmt::format("resolving {}", path.str());
  for (int attempt = 0; attempt < kWalkAttempts; ++attempt) {
    auto parent = OpenParent(path);
    if (!parent.has_value()) {
      return WhyNot(path, std::move(parent.error()));
    }
    QUARRY_ASSIGN(const std::string name, NameOf(*parent).Context(what));
    QUARRY_ASSIGN(const Place place, Describe(std::move(*parent), path.str()));
    UniqueFd again(OpenAt2(name.c_str(), O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS));
    if (again.valid()) {
      QUARRY_ASSIGN(const Place same, Describe(std::move(again), name));
      if (IsSamePlace(place, same)) {
        return AbsolutePath::Parse(fmt::format("{}/{}", name, path.Name())).Context(what);
      }
    }
  }
  return Error(Code::kUnavailable, fmt::format("{}: the directories above it are being moved", what));
}

Result<std::optional<DeviceNumber>> KernelMount::FileSystemOfNode(const std::string& node,
                                                                  DeviceNumber device) {
  struct stat st{};
  if (lstat(node.c_str(), &st) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? Result<std::optional<DeviceNumber>>(std::nullopt)
                                               : ErrnoError(fmt::format("looking at {}", node));
  }
  if (!S_ISBLK(st.st_mode) || DeviceNumber{major(st.st_rdev), minor(st.st_rdev)} != device) {
    return std::optional<DeviceNumber>();
  }
  return std::optional(DeviceNumber{major(st.st_dev), minor(st.st_dev)});
}

Result<PathKind> KernelMount::Inspect(const AbsolutePath& path) {
  QUARRY_ASSIGN(const auto place, LookIfThere(path));
  return place.has_value() ? place->kind() : PathKind::kAbsent;
}

Result<std::optional<DeviceNumber>> KernelMount::BlockDeviceAt(const AbsolutePath& path) {
  QUARRY_ASSIGN(const auto place, LookIfThere(path));
  return place.has_value() && S_ISBLK(place->mode) ? std::optional(place->node) : std::nullopt;
}

Status KernelMount::MakeDirectory(const AbsolutePath& path) {
  QUARRY_ASSIGN(const UniqueFd parent, OpenParent(path));
  if (mkdirat(parent.get(), path.Name().c_str(), kDirectoryMode) == 0) {
    return Ok();
  }
  if (errno != EEXIST) {
    return ErrnoError(fmt::format("creating directory {}", path.str()));
  }
  QUARRY_ASSIGN(const PathKind kind, Inspect(path));
  return kind == PathKind::kDirectory ? Ok() : Status(Refusal(path, "exists and is not a directory"));
}

Status KernelMount::MakeFile(const AbsolutePath& path) {
  QUARRY_ASSIGN(const UniqueFd parent, OpenParent(path));
  const UniqueFd file(openat(parent.get(), path.Name().c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (file.valid()) {
    return Ok();
  }
  if (errno != EEXIST) {
    return ErrnoError(fmt::format("creating file {}", path.str()));
  }
  QUARRY_ASSIGN(const PathKind kind, Inspect(path));
  return kind == PathKind::kFile ? Ok() : Status(Refusal(path, "exists and is not a regular file"));
}

// The file is created under another name and exchanged with the directory (renameat2). The directory is then
// removed under that name. After a crash before the exchange, the next attempt reuses the file. After a
// crash between the exchange and the removal, the path is a file, and the empty directory `.NAME.quarry`
// stays beside it.
Status KernelMount::MakeFileFromDirectory(const AbsolutePath& path) {
  QUARRY_ASSIGN(const auto found, LookIfThere(path));
  if (!found.has_value() || found->kind() != PathKind::kDirectory) {
    return MakeFile(path);
  }
  if (found->mount_root) {
    return Refusal(path, "is a mount point");
  }
  QUARRY_ASSIGN(const UniqueFd parent, OpenParent(path));
  const std::string name = path.Name();
  const std::string other = fmt::format(".{}.quarry", name);
  (void)unlinkat(parent.get(), other.c_str(), AT_REMOVEDIR);  // left by an interrupted attempt
  const UniqueFd file(
      openat(parent.get(), other.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.valid()) {
    return ErrnoError(fmt::format("creating a file in place of directory {}", path.str()));
  }
  const auto exchange = [&] {
    return renameat2(parent.get(), other.c_str(), parent.get(), name.c_str(), RENAME_EXCHANGE) == 0;
  };
  if (!exchange()) {
    const int saved = errno;
    (void)unlinkat(parent.get(), other.c_str(), 0);
    return saved == EBUSY ? Refusal(path, "is a mount point")
                          : ErrnoError(fmt::format("exchanging directory {} for a file", path.str()), saved);
  }
  if (unlinkat(parent.get(), other.c_str(), AT_REMOVEDIR) == 0) {
    return Ok();
  }
  const int saved = errno;
  if (exchange()) {
    (void)unlinkat(parent.get(), other.c_str(), 0);
  }
  return saved == ENOTEMPTY || saved == EEXIST
             ? Refusal(path, "is a directory that is not empty, where a file is needed")
             : ErrnoError(fmt::format("removing directory {}", path.str()), saved);
}

Status KernelMount::RemovePath(const AbsolutePath& path) {
  QUARRY_ASSIGN(const auto place, LookIfThere(path));
  if (!place.has_value()) {
    return Ok();
  }
  if (place->mount_root) {
    return Refusal(path, "is a mount point");
  }
  if (place->kind() == PathKind::kOther) {
    return Refusal(path, "is neither a directory nor a regular file");
  }
  const bool directory = place->kind() == PathKind::kDirectory;
  if (!directory && place->size != 0) {
    return Refusal(path, "is not empty");
  }
  QUARRY_ASSIGN(const UniqueFd parent, OpenParent(path));
  if (unlinkat(parent.get(), path.Name().c_str(), directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT) {
    return Ok();
  }
  switch (errno) {
    case ENOTEMPTY:
    case EEXIST:
      return Refusal(path, "is not empty");
    case EBUSY:
      return Refusal(path, "is a mount point");
    case ENOTDIR:
    case EISDIR:
      return Refusal(path, "was replaced by another process meanwhile");
    default:
      return ErrnoError(fmt::format("removing {}", path.str()));
  }
}

Result<FilesystemUsage> KernelMount::Usage(const AbsolutePath& path) {
  QUARRY_ASSIGN(const UniqueFd fd, OpenPath(path, O_PATH | O_NOFOLLOW));
  struct statfs st{};
  if (fstatfs(fd.get(), &st) != 0) {
    return ErrnoError(fmt::format("reading the usage of {}", path.str()));
  }
  const auto block = static_cast<uint64_t>(st.f_frsize > 0 ? st.f_frsize : st.f_bsize);
  FilesystemUsage usage;
  usage.total = {st.f_blocks * block};
  usage.used = {(st.f_blocks - std::min(st.f_bfree, st.f_blocks)) * block};
  usage.available = {st.f_bavail * block};
  usage.inodes_total = st.f_files;
  usage.inodes_free = st.f_ffree;
  usage.inodes_used = st.f_files - std::min(st.f_ffree, st.f_files);
  return usage;
}

}  // namespace quarry::mount
