// Grows a mounted file system. Success is proven by measuring.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "mount/kernel_mount.h"

namespace quarry::mount {
namespace {

// A remainder below 4 KiB is ignored.
constexpr Bytes kBlock{4096};

Bytes LeftOver(Bytes device, Bytes file_system) {
  return file_system < device ? device - file_system : Bytes{};
}

}  // namespace

Status KernelMount::CheckMounted(const Filesystem& fs, DeviceNumber device, const AbsolutePath& mount_point) {
  QUARRY_ASSIGN(const Place place,
                Look(mount_point));  // while it is open, no other mount can get its id
  QUARRY_ASSIGN(const MountTable table, Mounts());
  const MountEntry* entry = place.mount_root ? table.ById(place.mount_id) : nullptr;
  if (entry == nullptr) {
    return Error(Code::kPrecondition, fmt::format("{} is not a mount point", mount_point.str()));
  }
  if (entry->fs_type != fs.type() || entry->backing != device) {
    return Error(Code::kPrecondition,
                 fmt::format("at {} there is {} of {}, not {} of {}:{}", mount_point.str(), entry->fs_type,
                             entry->source, fs.type(), device.major, device.minor));
  }
  if (entry->read_only()) {
    return Error(Code::kPrecondition, fmt::format("{} is mounted read-only", mount_point.str()));
  }
  return Ok();
}

Status KernelMount::Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& mount_point,
                         const Call& call) {
  const std::string what = fmt::format("growing {} at {}", fs_type, mount_point.str());
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(fs_type));
  const UniqueFd device_fd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat st{};
  if (!device_fd.valid() || fstat(device_fd.get(), &st) != 0) {
    return ErrnoError(fmt::format("{}: opening {}", what, device));
  }
  QUARRY_TRY(CheckMounted(*fs, {major(st.st_rdev), minor(st.st_rdev)}, mount_point).Context(what));
  QUARRY_ASSIGN(const UniqueFd mount_fd,
                OpenPath(mount_point, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).Context(what));
  QUARRY_ASSIGN(const Bytes size, DeviceSize(device_fd.get()));

  QUARRY_ASSIGN(const Measured before, fs->Measure(mount_fd.get(), device_fd.get()).Context(what));
  if (LeftOver(size, before.size) < kBlock) {
    return Ok();
  }
  QUARRY_ASSIGN(const Finished finished,
                RunTool(fs->GrowCommand(device, mount_point.str()), *fs, call).Context(what));
  if (!finished.ok()) {
    return Error(Code::kInternal, fmt::format("{}: the tool failed ({}): {}", what, finished.exit_status,
                                              ToolWords(finished.err.empty() ? finished.out : finished.err)));
  }
  QUARRY_ASSIGN(const Measured after, fs->Measure(mount_fd.get(), device_fd.get()).Context(what));
  if (LeftOver(size, after.size) > after.slack) {
    return Error(Code::kInternal,
                 fmt::format("{}: the tool reports success, but the file system has {} of {} bytes", what,
                             after.size.value, size.value));
  }
  return Ok();
}

}  // namespace quarry::mount
