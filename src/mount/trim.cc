// Trims a mounted file system (FITRIM).
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "mount/kernel_mount.h"

namespace quarry::mount {

Result<Bytes> KernelMount::Trim(const AbsolutePath& mount_point, Bytes from, Bytes length, const Call& call) {
  const std::string what = fmt::format("trimming the file system at {}", mount_point.str());
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Place place, Look(mount_point).Context(what));
  if (!place.mount_root) {
    return Error(Code::kPrecondition, fmt::format("{}: it is not a mount point", what));
  }
  QUARRY_ASSIGN(const UniqueFd fd, OpenPath(mount_point, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).Context(what));
  fstrim_range range{.start = from.value, .len = length.value, .minlen = 0};
  if (ioctl(fd.get(), FITRIM, &range) != 0) {
    const int failure = errno;
    return failure == EOPNOTSUPP || failure == ENOTTY
               ? Error(Code::kUnsupported, fmt::format("{}: discards are not supported here", what))
               : ErrnoError(what, failure);
  }
  return Bytes{range.len};
}

}  // namespace quarry::mount
