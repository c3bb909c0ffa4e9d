#include "engine/plan/device_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

constexpr size_t kPiece = 1 << 20;
// Enough for O_DIRECT on every block device.
constexpr size_t kAlignment = 4096;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

constexpr char kWhat[] = "copying a volume";

// Neither device leaves its bytes in the page cache. A descriptor that cannot do that (a file of a test) is
// used as it is.
void BypassPageCache(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) {
    (void)fcntl(fd, F_SETFL, flags | O_DIRECT);
  }
}

Status ReadPiece(int fd, std::span<std::byte> piece, uint64_t offset) {
  for (size_t done = 0; done < piece.size();) {
    const ssize_t n = pread(fd, piece.data() + done, piece.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return ErrnoError(fmt::format("{}: reading {} bytes at {} of the source", kWhat, piece.size(), offset));
    }
    if (n == 0) {
      return Error(Code::kIo, fmt::format("{}: the source ends at {}", kWhat, offset + done));
    }
    done += static_cast<size_t>(n);
  }
  return Ok();
}

Status WritePiece(int fd, std::span<const std::byte> piece, uint64_t offset) {
  for (size_t done = 0; done < piece.size();) {
    const ssize_t n = pwrite(fd, piece.data() + done, piece.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return ErrnoError(fmt::format("{}: writing {} bytes at {} of the copy", kWhat, piece.size(), offset));
    }
    if (n == 0) {
      return Error(Code::kIo, fmt::format("{}: the copy's device ends at {}", kWhat, offset + done));
    }
    done += static_cast<size_t>(n);
  }
  return Ok();
}

bool IsZero(std::span<const std::byte> piece) {
  // The first byte is zero, and each byte is equal to the next one.
  return piece.front() == std::byte{} && std::memcmp(piece.data(), piece.data() + 1, piece.size() - 1) == 0;
}

// Waits until the piece has taken as long as `rate` demands. What a stalled disk has lost is not caught up.
Status Pace(Bytes piece, Bytes rate, SteadyTime begun, const Call& call) {
  constexpr std::chrono::milliseconds kStep{50};
  if (rate.value == 0) {
    return Ok();
  }
  const auto due = begun + std::chrono::duration_cast<SteadyTime::duration>(std::chrono::duration<double>(
                               static_cast<double>(piece.value) / static_cast<double>(rate.value)));
  for (auto now = std::chrono::steady_clock::now(); now < due; now = std::chrono::steady_clock::now()) {
    QUARRY_TRY(call.Check(kWhat));
    Sleep(call.stop, std::min(kStep, std::chrono::ceil<std::chrono::milliseconds>(due - now)));
  }
  return Ok();
}

}  // namespace

Status CopyDevice(const DeviceCopy& copy, const Call& call, const std::function<void(Bytes)>& progress) {
  const Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPiece)));
  if (buffer == nullptr) {
    return Error(Code::kUnavailable, fmt::format("{}: out of memory", kWhat));
  }
  BypassPageCache(copy.from);
  BypassPageCache(copy.to);
  for (Bytes done; done < copy.length;) {
    QUARRY_TRY(call.Check(kWhat));
    const SteadyTime begun = std::chrono::steady_clock::now();
    const size_t size = std::min<uint64_t>(kPiece, (copy.length - done).value);
    const std::span<std::byte> piece(buffer.get(), size);
    QUARRY_TRY(ReadPiece(copy.from, piece, done.value));
    if (!copy.to_is_zero || !IsZero(piece)) {
      QUARRY_TRY(WritePiece(copy.to, piece, done.value));
    }
    done = done + Bytes{size};
    if (progress) {
      progress(done);
    }
    QUARRY_TRY(Pace(Bytes{size}, copy.rate, begun, call));
  }
  if (fsync(copy.to) != 0) {
    return ErrnoError(fmt::format("{}: flushing the copy", kWhat));
  }
  return Ok();
}

}  // namespace quarry::engine
