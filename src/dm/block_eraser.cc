#include "dm/block_eraser.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "dm/pv_device.h"

namespace quarry::dm {
namespace {

constexpr Bytes kPiece = kGiB;

Status ErasePiece(int fd, EraseMethod method, Bytes offset, Bytes length, const std::string& device) {
  std::array<uint64_t, 2> piece = {offset.value, length.value};
  const bool zero = method == EraseMethod::kZero;
  if (ioctl(fd, zero ? BLKZEROOUT : BLKDISCARD, piece.data()) == 0) {
    return Ok();
  }
  // ErrnoError turns EOPNOTSUPP, which only a discard can return, into kUnsupported.
  return ErrnoError(fmt::format("{} bytes {}+{} of {}", zero ? "zeroing" : "discarding", offset.value,
                                length.value, device));
}

}  // namespace

Status BlockEraser::Erase(const EraseRange& range, EraseMethod method, const Call& call,
                          const std::function<void(Bytes)>& progress) {
  const std::string what = fmt::format("erasing {}", range.device);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const UniqueFd fd, OpenPvRange(range, O_RDWR));
  for (Bytes done; done < range.length;) {
    QUARRY_TRY(call.Check(what));
    const Bytes length = std::min(kPiece, range.length - done);
    QUARRY_TRY(ErasePiece(fd.get(), method, range.offset + done, length, range.device));
    done = done + length;
    if (progress) {
      progress(done);
    }
  }
  // Zeroes may still be in the page cache (if the kernel wrote pages) or in the drive's cache.
  if (fsync(fd.get()) != 0) {
    return ErrnoError(fmt::format("flushing {}", range.device));
  }
  return Ok();
}

Status BlockEraser::Zero(int fd, const std::vector<OpenRange>& ranges, const Call& call) {
  for (const OpenRange& range : ranges) {
    QUARRY_TRY(call.Check("erasing in a thin store"));
    QUARRY_TRY(ErasePiece(fd, EraseMethod::kZero, range.offset, range.length, "a thin store"));
  }
  return fsync(fd) == 0 ? Ok() : Status(ErrnoError("flushing a thin store"));
}

Status BlockEraser::ZeroAndFree(int fd, int data, Bytes offset, Bytes length, const Call& call) {
  QUARRY_TRY(call.Check("erasing a thin volume"));
  QUARRY_TRY(ErasePiece(fd, EraseMethod::kZero, offset, length, "a thin volume"));
  // The zeroes must be on the disks before another volume can get the chunks.
  if (fsync(data) != 0) {
    return ErrnoError("flushing a thin store");
  }
  Status freed = ErasePiece(fd, EraseMethod::kDiscard, offset, length, "a thin volume");
  return !freed.has_value() && freed.error().code() == Code::kUnsupported ? Ok() : std::move(freed);
}

}  // namespace quarry::dm
