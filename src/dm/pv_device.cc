#include "dm/pv_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/scsi_recovery.h"
#include "dm/pv_label.h"

namespace quarry::dm {
namespace {

Error NotThatPv(const EraseRange& range, std::string_view why) {
  return {Code::kCorrupt, fmt::format("{} is not accepted as PV {}: {}; nothing was written", range.device,
                                      range.pv_uuid, why)};
}

Result<UniqueFd> OpenDevice(const std::string& path, int flags) {
  QUARRY_TRY(CheckNotInScsiRecovery(path));
  UniqueFd fd(open(path.c_str(), O_CLOEXEC | flags));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}", path));
  }
  struct stat st{};
  if (fstat(fd.get(), &st) != 0) {
    return ErrnoError(fmt::format("looking at {}", path));
  }
  if (!S_ISBLK(st.st_mode)) {
    return Error(Code::kInvalidArgument, fmt::format("{} is not a block device", path));
  }
  return fd;
}

Result<PvLabel> ReadLabel(int fd, const EraseRange& range) {
  alignas(4096) std::array<std::byte, 4096> start{};  // O_DIRECT needs whole blocks
  static_assert(kPvLabelScan <= start.size());
  const ssize_t n = pread(fd, start.data(), start.size(), 0);
  if (n < 0) {
    return ErrnoError(fmt::format("reading the label of {}", range.device));
  }
  auto label = ParsePvLabel(std::span(start).first(std::min(static_cast<size_t>(n), kPvLabelScan)));
  if (!label.has_value()) {
    return NotThatPv(range, label.error().message());
  }
  if (label->uuid != range.pv_uuid) {
    return NotThatPv(range, fmt::format("it is PV {}", label->uuid));
  }
  return label;
}

Status CheckRange(int fd, const PvLabel& label, const EraseRange& range) {
  uint64_t size = 0;
  if (ioctl(fd, BLKGETSIZE64, &size) != 0) {
    return ErrnoError(fmt::format("asking {} for its size", range.device));
  }
  if (Status within = CheckWithinExtents(label, range.offset, range.length, {size}); !within.has_value()) {
    return NotThatPv(range, within.error().message());
  }
  int sector = 0;
  if (ioctl(fd, BLKSSZGET, &sector) != 0 || sector <= 0) {
    return ErrnoError(fmt::format("asking {} for its sector size", range.device));
  }
  const auto unit = static_cast<uint64_t>(sector);
  if (range.offset.value % unit != 0 || range.length.value % unit != 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}+{} of {}: not whole sectors of {} bytes", range.offset.value,
                             range.length.value, range.device, unit));
  }
  return Ok();
}

}  // namespace

Result<UniqueFd> OpenPvRange(const EraseRange& range, int flags) {
  QUARRY_ASSIGN(UniqueFd fd, OpenDevice(range.device, flags));
  QUARRY_ASSIGN(const PvLabel label, ReadLabel(fd.get(), range));
  QUARRY_TRY(CheckRange(fd.get(), label, range));
  return fd;
}

}  // namespace quarry::dm
