#include "bucket/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

namespace quarry::bucket {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// A key has at most 1024 bytes, so at most 512 folders are above an object.
constexpr int kMostDepth = 520;
constexpr const char* kUploads = ".sgwtmp";
constexpr const char* kStale = "user.quarry.stale";  // on the folder of an upload that a sweep removes

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// A stream of its own, from the beginning, that leaves `fd` as it is.
Result<Folder> Listing(int fd) {
  const int own = openat(fd, ".", kFolderFlags);
  if (own < 0) {
    return ErrnoError("opening a folder");
  }
  DIR* const folder = fdopendir(own);
  if (folder == nullptr) {
    close(own);
    return ErrnoError("reading a folder");
  }
  return Folder(folder);
}

// The next name, or nullptr at the end.
Result<const dirent*> Next(DIR* folder) {
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(folder);
    if (entry == nullptr && errno != 0) {
      return ErrnoError("reading a folder");
    }
    const std::string_view name = entry == nullptr ? "end" : entry->d_name;
    if (name != "." && name != "..") {
      return entry;
    }
  }
}

Status WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) {
      return ErrnoError("writing");
    }
    text.remove_prefix(n < 0 ? 0 : static_cast<size_t>(n));
  }
  return Ok();
}

Status Adopt(int fd, const std::string& name, Owner owner, mode_t mode) {
  struct stat found{};
  if (fstat(fd, &found) != 0) {
    return ErrnoError("inspecting " + name);
  }
  if (found.st_uid != owner.user || found.st_gid != owner.group) {
    QUARRY_ASSIGN(const auto names, NamesIn(fd));
    if (!names.empty() && found.st_uid != owner.user) {
      return Error(
          Code::kPrecondition,
          fmt::format("folder {} belongs to user {}, and is not empty. If that was the gateway's user "
                      "on an earlier system, give it to the present one (docs/buckets.md)",
                      name, found.st_uid));
    }
    if (fchown(fd, owner.user, owner.group) != 0) {
      return ErrnoError("changing the owner of " + name);
    }
  }
  if ((found.st_mode & 07777U) != mode && fchmod(fd, mode) != 0) {
    return ErrnoError("changing the mode of " + name);
  }
  return Ok();
}

class Walk {
 public:
  Walk(uint64_t most, const Call& call) : most_(most), call_(call) {}

  Status Run(int folder, int depth) {
    if (depth > kMostDepth) {
      return Error(Code::kUnsupported, "folders are nested deeper than any key of S3");
    }
    QUARRY_ASSIGN(const Folder listing, Listing(folder));
    while (count_.is_complete) {
      QUARRY_ASSIGN(const dirent* const entry, Next(listing.get()));
      if (entry == nullptr) {
        return Ok();
      }
      // A folder may have millions of entries that are no objects.
      count_.is_complete = call_.Check("counting").has_value();
      if (!count_.is_complete || (depth == 0 && entry->d_name == std::string_view(kUploads))) {
        continue;
      }
      if (entry->d_type == DT_REG) {
        Found();
      } else if (entry->d_type == DT_DIR) {
        const UniqueFd below(openat(folder, entry->d_name, kFolderFlags));
        if (!below.valid() && errno == ENOENT) {
          continue;  // a client has just deleted it
        }
        if (!below.valid()) {
          return ErrnoError("opening a folder of the bucket");
        }
        if (fgetxattr(below.get(), "user.etag", nullptr, 0) >= 0) {
          Found();
        }
        QUARRY_TRY(Run(below.get(), depth + 1));
      }
    }
    return Ok();
  }
  ObjectCount count() const { return count_; }

 private:
  void Found() {
    ++count_.objects;
    count_.is_complete = count_.objects < most_;
  }

  const uint64_t most_;
  const Call& call_;
  ObjectCount count_;
};

int64_t TouchedAt(const struct stat& found) {
  return std::max<int64_t>(found.st_mtim.tv_sec, found.st_ctim.tv_sec);
}

// Calls `visit` with each name in the folder until it fails or `call` ends. True: it saw all of them. Names
// that come or go meanwhile may be missed.
template <typename Visit>
Result<bool> ForEachName(int folder, const Call& call, const Visit& visit) {
  QUARRY_ASSIGN(const Folder listing, Listing(folder));
  while (true) {
    QUARRY_ASSIGN(const dirent* const entry, Next(listing.get()));
    if (entry == nullptr) {
      return true;
    }
    if (!call.Check("sweeping uploads").has_value()) {
      return false;
    }
    QUARRY_TRY(visit(std::string(entry->d_name)));
  }
}

// One sweep of the uploads of a bucket. versitygw keeps the parts of an upload in
// .sgwtmp/multipart/<hash of the key>/<upload id>/.
class Sweep {
 public:
  Sweep(int64_t before, const Call& call) : before_(before), call_(call) {}

  Result<SweptUploads> Run(int uploads) {
    QUARRY_ASSIGN(const bool all, ForEachName(uploads, call_, [&](const std::string& key) -> Status {
                    const auto folder = OpenFolder(uploads, key);
                    if (!folder.has_value()) {
                      return Ok();  // ended meanwhile, or no folder of an upload
                    }
                    QUARRY_TRY(OfKey(folder->get()));
                    // Fails while other uploads of the key go on.
                    (void)unlinkat(uploads, key.c_str(), AT_REMOVEDIR);
                    return Ok();
                  }));
    swept_.is_complete = swept_.is_complete && all;
    return swept_;
  }

 private:
  Status OfKey(int folder) {
    QUARRY_ASSIGN(const bool all, ForEachName(folder, call_, [&](const std::string& id) -> Status {
                    const auto upload = OpenFolder(folder, id);
                    QUARRY_ASSIGN(const bool stale, upload.has_value() ? IsStale(upload->get()) : false);
                    return stale ? Remove(folder, id, upload->get()) : Ok();
                  }));
    swept_.is_complete = swept_.is_complete && all;
    return Ok();
  }

  // Whether nobody has touched the folder of an upload, or a part in it, for so long.
  Result<bool> IsStale(int upload) const {
    if (fgetxattr(upload, kStale, nullptr, 0) >= 0) {
      return true;
    }
    struct stat found{};
    if (fstat(upload, &found) != 0) {
      return ErrnoError("inspecting an upload");
    }
    bool stale = TouchedAt(found) < before_;
    if (!stale) {
      return false;
    }
    QUARRY_ASSIGN(const bool all, ForEachName(upload, call_, [&](const std::string& part) -> Status {
                    struct stat of_part{};
                    stale = stale && (fstatat(upload, part.c_str(), &of_part, AT_SYMLINK_NOFOLLOW) != 0 ||
                                      TouchedAt(of_part) < before_);
                    return Ok();
                  }));
    return stale && all;
  }

  Status Remove(int parent, const std::string& id, int upload) {
    // A removed part touches the folder, so a sweep that is cut off would leave an upload that counts as new.
    // In a full bucket there may be no room for the mark.
    (void)fsetxattr(upload, kStale, "1", 1, 0);
    QUARRY_ASSIGN(const bool all, ForEachName(upload, call_, [&](const std::string& part) {
                    return unlinkat(upload, part.c_str(), 0) == 0 || errno == ENOENT
                               ? Ok()
                               : Status(ErrnoError("removing a part of an upload"));
                  }));
    if (!all) {
      swept_.is_complete = false;
      return Ok();
    }
    if (unlinkat(parent, id.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return ErrnoError("removing an upload");
    }
    ++swept_.removed;
    return Ok();
  }

  const int64_t before_;
  const Call& call_;
  SweptUploads swept_;
};

}  // namespace

Result<UniqueFd> OpenFolder(int parent, const std::string& name) {
  UniqueFd fd(openat(parent, name.c_str(), kFolderFlags));
  return fd.valid() ? Result<UniqueFd>(std::move(fd)) : ErrnoError("opening folder " + name);
}

Result<UniqueFd> MakeFolder(int parent, const std::string& name, Owner owner, mode_t mode) {
  if (mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError("making folder " + name);
  }
  auto fd = OpenFolder(parent, name);
  if (!fd.has_value() && (fd.error().sys_errno() == ENOTDIR || fd.error().sys_errno() == ELOOP)) {
    return Error(Code::kPrecondition, fmt::format("{} is there and is no folder: it is not Quarry's", name));
  }
  QUARRY_TRY(fd.has_value() ? Ok() : Status(fd.error()));
  QUARRY_TRY(Adopt(fd->get(), name, owner, mode));
  return fd;
}

Status WriteFile(int folder, const std::string& name, std::string_view text, Owner owner, mode_t mode,
                 bool durable) {
  const std::string fresh = "." + name + ".new";
  if (unlinkat(folder, fresh.c_str(), 0) != 0 && errno != ENOENT) {
    return ErrnoError("removing " + fresh);
  }
  const UniqueFd fd(
      openat(folder, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return ErrnoError("making " + fresh);
  }
  QUARRY_TRY(WriteAll(fd.get(), text).Context(name));
  if (fchown(fd.get(), owner.user, owner.group) != 0 || fchmod(fd.get(), mode) != 0) {
    return ErrnoError("changing the owner of " + fresh);
  }
  if (durable && fsync(fd.get()) != 0) {
    return ErrnoError("fsync of " + fresh);
  }
  if (renameat(folder, fresh.c_str(), folder, name.c_str()) != 0) {
    return ErrnoError("renaming " + fresh);
  }
  return durable && fsync(folder) != 0 ? Status(ErrnoError("fsync of the folder of " + name)) : Ok();
}

Result<std::string> ReadFile(int folder, const std::string& name, size_t most) {
  const UniqueFd fd(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError("opening " + name);
  }
  struct stat found{};
  if (fstat(fd.get(), &found) != 0) {
    return ErrnoError("inspecting " + name);
  }
  if (!S_ISREG(found.st_mode) || static_cast<uint64_t>(found.st_size) > most) {
    return Error(Code::kPrecondition, name + " is not a file that quarryd wrote");
  }
  std::string text(static_cast<size_t>(found.st_size), '\0');
  for (size_t got = 0; got < text.size();) {
    const ssize_t n = read(fd.get(), text.data() + got, text.size() - got);
    if (n == 0) {
      return Error(Code::kUnavailable, name + " became shorter");
    }
    if (n < 0 && errno != EINTR) {
      return ErrnoError("reading " + name);
    }
    got += n < 0 ? 0 : static_cast<size_t>(n);
  }
  return text;
}

bool IsMountPoint(const AbsolutePath& path) {
  struct statx found{};
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &found) != 0) {
    return errno == EIO;  // of an XFS that has shut itself down, even for its root
  }
  return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Status ProveMount(int folder, dev_t device) {
  struct statx found{};
  if (statx(folder, "", AT_EMPTY_PATH, STATX_TYPE, &found) != 0) {
    return ErrnoError("inspecting the bucket's folder");
  }
  if ((found.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) {
    return Error(Code::kUnavailable, "nothing is mounted at the bucket's folder");
  }
  if (const dev_t there = makedev(found.stx_dev_major, found.stx_dev_minor); there != device) {
    return Error(Code::kUnavailable,
                 fmt::format("device {}:{} is mounted at the bucket's folder, not its volume {}:{}",
                             found.stx_dev_major, found.stx_dev_minor, major(device), minor(device)));
  }
  return Ok();
}

Result<std::vector<std::string>> NamesIn(int folder) {
  QUARRY_ASSIGN(const Folder listing, Listing(folder));
  std::vector<std::string> out;
  while (true) {
    QUARRY_ASSIGN(const dirent* const entry, Next(listing.get()));
    if (entry == nullptr) {
      break;
    }
    out.emplace_back(entry->d_name);
  }
  std::ranges::sort(out);
  return out;
}

Result<ObjectCount> CountObjects(int data, uint64_t most, const Call& call) {
  Walk walk(most, call);
  QUARRY_TRY(walk.Run(data, 0));
  return walk.count();
}

Result<SweptUploads> SweepUploads(int data, std::chrono::system_clock::time_point before, const Call& call) {
  const auto hidden = OpenFolder(data, kUploads);
  const auto uploads = hidden.has_value() ? OpenFolder(hidden->get(), "multipart") : hidden.error();
  if (!uploads.has_value()) {
    return uploads.error().code() == Code::kNotFound ? Result<SweptUploads>(SweptUploads()) : uploads.error();
  }
  return Sweep(std::chrono::system_clock::to_time_t(before), call).Run(uploads->get());
}

}  // namespace quarry::bucket
