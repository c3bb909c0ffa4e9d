#include "dm/block_eraser.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "dm/pv_label.h"

namespace quarry::dm {
namespace {

constexpr Bytes kPiece = kGiB;

Error NotThatPv(const EraseRange& range, std::string_view why) {
  return {Code::kCorrupt, fmt::format("{} is not to be touched as PV {}: {}; nothing was erased",
                                      range.device, range.pv_uuid, why)};
}

Result<UniqueFd> OpenDevice(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {} for erasing", path));
  }
  struct stat st{};
  if (fstat(fd.get(), &st) != 0) {
    return ErrnoError(fmt::format("looking at {}", path));
  }
  if (!S_ISBLK(st.st_mode)) {
    return Error(Code::kInvalidArgument, fmt::format("{} is no block device", path));
  }
  return fd;
}

Result<PvLabel> ReadLabel(int fd, const EraseRange& range) {
  std::array<std::byte, kPvLabelScan> start{};
  const ssize_t n = pread(fd, start.data(), start.size(), 0);
  if (n < 0) {
    return ErrnoError(fmt::format("reading the label of {}", range.device));
  }
  auto label = ParsePvLabel(std::span(start).first(static_cast<size_t>(n)));
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
                 fmt::format("erasing {}+{} of {}: not whole sectors of {} bytes", range.offset.value,
                             range.length.value, range.device, unit));
  }
  return Ok();
}

Status ErasePiece(int fd, EraseMethod method, Bytes offset, Bytes length, const std::string& device) {
  std::array<uint64_t, 2> piece = {offset.value, length.value};
  const bool zero = method == EraseMethod::kZero;
  if (ioctl(fd, zero ? BLKZEROOUT : BLKDISCARD, piece.data()) == 0) {
    return Ok();
  }
  const std::string what = fmt::format("{} bytes {}+{} of {}", zero ? "zeroing" : "discarding", offset.value,
                                       length.value, device);
  // ErrnoError makes kUnsupported of EOPNOTSUPP, which only a discard can give.
  return ErrnoError(what);
}

}  // namespace

Status BlockEraser::Erase(const EraseRange& range, EraseMethod method, const Call& call,
                          const std::function<void(Bytes)>& progress) {
  const std::string what = fmt::format("erasing {}", range.device);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const UniqueFd fd, OpenDevice(range.device));
  QUARRY_ASSIGN(const PvLabel label, ReadLabel(fd.get(), range));
  QUARRY_TRY(CheckRange(fd.get(), label, range));
  for (Bytes done; done < range.length;) {
    QUARRY_TRY(call.Check(what));
    const Bytes length = std::min(kPiece, range.length - done);
    QUARRY_TRY(ErasePiece(fd.get(), method, range.offset + done, length, range.device));
    done = done + length;
    if (progress) {
      progress(done);
    }
  }
  // Zeroes may still be in the page cache (where the kernel wrote pages) or in the drive's cache.
  if (fsync(fd.get()) != 0) {
    return ErrnoError(fmt::format("flushing {}", range.device));
  }
  return Ok();
}

}  // namespace quarry::dm
