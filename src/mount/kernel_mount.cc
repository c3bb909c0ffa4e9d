#include "mount/kernel_mount.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>

#include <fmt/format.h>

#include "base/scsi_recovery.h"
#include "mount/blkid_probe.h"
#include "mount/process_scan.h"
#include "mount/zeroes.h"

namespace quarry::mount {
namespace {

// If the table changes while it is read, it is read again, at most this many times.
constexpr int kReadAttempts = 5;
// For about 70 reads. A disk that needs longer is faulty or overloaded.
constexpr std::chrono::seconds kSampling{10};

// Reads the whole file from its beginning.
Result<std::string> ReadFromStart(int fd, const std::string& path) {
  if (lseek(fd, 0, SEEK_SET) != 0) {
    return ErrnoError(fmt::format("rewinding {}", path));
  }
  auto text = ReadRest(fd, path);
  return text.has_value() ? std::move(text) : std::move(text.error()).As(Code::kUnavailable);
}

// The kernel reports changes of the table since the last read as POLLPRI and POLLERR (proc(5)).
bool ChangedMeanwhile(int fd) {
  pollfd watch{fd, POLLPRI, 0};
  return poll(&watch, 1, 0) > 0 && (watch.revents & POLLPRI) != 0;
}

// The device of a btrfs, by the node that the btrfs was mounted from. While the btrfs is mounted, that node
// cannot become another device's.
DeviceNumber BackingOf(const MountEntry& entry) {
  struct stat st{};
  if (entry.fs_type != "btrfs" || !entry.source.starts_with("/dev/") ||
      stat(entry.source.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) {
    return {};
  }
  return {major(st.st_rdev), minor(st.st_rdev)};
}

Status CheckFree(const AbsolutePath& device) {
  const UniqueFd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_EXCL));
  return fd.valid() ? Ok() : Status(ErrnoError(fmt::format("opening {} exclusively", device.str())));
}

}  // namespace

KernelMount::KernelMount(Subprocess& subprocess, KernelMountConfig config)
    : subprocess_(subprocess), config_(std::move(config)) {}

Result<MountTable> KernelMount::Mounts() {
  const std::string path = config_.proc + "/self/mountinfo";
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}", path)).As(Code::kUnavailable);
  }
  QUARRY_ASSIGN(std::string text, ReadFromStart(fd.get(), path));
  for (int attempt = 1; attempt < kReadAttempts && ChangedMeanwhile(fd.get()); ++attempt) {
    QUARRY_ASSIGN(text, ReadFromStart(fd.get(), path));
  }
  QUARRY_ASSIGN(const MountTable table, MountTable::Parse(text));
  std::vector<MountEntry> entries = table.entries();
  for (MountEntry& entry : entries) {
    if (entry.backing == DeviceNumber{}) {
      entry.backing = BackingOf(entry);
    }
  }
  return MountTable(std::move(entries));
}

Result<Content> KernelMount::ProbeDevice(const AbsolutePath& device) {
  QUARRY_TRY(CheckNotInScsiRecovery(device.str()));
  const int exclusive = config_.exclusive_probe ? O_EXCL : 0;
  const UniqueFd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | exclusive));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}{}", device.str(), exclusive != 0 ? " exclusively" : ""));
  }
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) {
    return ErrnoError(fmt::format("looking at {}", device.str()));
  }
  if (!S_ISBLK(status.st_mode)) {
    return Error(Code::kInvalidArgument, fmt::format("{} is not a block device", device.str()));
  }
  QUARRY_ASSIGN(Content content, ProbeContent(fd.get()).Context(device.str()));
  if (content.kind == Content::Kind::kBlank) {
    QUARRY_ASSIGN(const Bytes size, DeviceSize(fd.get()).Context(device.str()));
    QUARRY_ASSIGN(
        content.residue,
        FindNonZero(fd.get(), size, std::chrono::steady_clock::now() + kSampling).Context(device.str()));
    if (exclusive == 0) {
      QUARRY_TRY(CheckFree(device));
    }
  }
  return content;
}

Result<Content> KernelMount::Probe(int fd) {
  return ProbeContent(fd);
}

Result<Bytes> KernelMount::DeviceSize(int fd) {
  uint64_t size = 0;
  if (ioctl(fd, BLKGETSIZE64, &size) != 0) {
    return errno == ENOTTY ? Error(Code::kInvalidArgument, "reading a device's size: not a block device")
                           : ErrnoError("reading a device's size");
  }
  return Bytes{size};
}

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

Status KernelMount::SyncFs(const AbsolutePath& mount_point, const Call& call) {
  const std::string what = fmt::format("writing back the file system at {}", mount_point.str());
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Place place, Look(mount_point).Context(what));
  if (!place.mount_root) {
    return Error(Code::kPrecondition, fmt::format("{}: it is not a mount point", what));
  }
  QUARRY_ASSIGN(const UniqueFd fd, OpenPath(mount_point, O_RDONLY | O_NOFOLLOW).Context(what));
  return syncfs(fd.get()) == 0 ? Ok() : Status(ErrnoError(what));
}

Result<std::vector<std::string>> KernelMount::Users(DeviceNumber device) {
  return UsersOf(device, config_.proc, config_.sys);
}

Result<std::vector<std::string>> KernelMount::Openers(DeviceNumber device) {
  constexpr size_t kMost = 8;
  return ProcessScan(config_.proc).OpenersOf(device, kMost);
}

}  // namespace quarry::mount
