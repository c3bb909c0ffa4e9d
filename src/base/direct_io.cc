#include "base/direct_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include <fmt/format.h>

namespace quarry {
namespace {

// `transfer(done)` continues after `done` bytes, as pread(2) and pwrite(2) do. `verb`: for the error.
template <typename Transfer>
Result<size_t> Whole(size_t size, uint64_t offset, std::string_view verb, const Transfer& transfer) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = transfer(done);
    if (n == 0) {
      break;
    }
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      return ErrnoError(fmt::format("{} {} bytes at {}", verb, size, offset));
    }
  }
  return done;
}

}  // namespace

DirectBuffer MakeDirectBuffer(size_t size) {
  return DirectBuffer(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, size)));
}

Status BypassPageCache(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0 && errno != EINVAL)) {
    return ErrnoError("preparing to bypass the page cache");
  }
  return Ok();
}

Result<size_t> ReadWhole(int fd, std::span<std::byte> memory, uint64_t offset) {
  return Whole(memory.size(), offset, "reading", [&](size_t done) {
    return pread(fd, memory.data() + done, memory.size() - done, static_cast<off_t>(offset + done));
  });
}

Result<size_t> WriteWhole(int fd, std::span<const std::byte> memory, uint64_t offset) {
  return Whole(memory.size(), offset, "writing", [&](size_t done) {
    return pwrite(fd, memory.data() + done, memory.size() - done, static_cast<off_t>(offset + done));
  });
}

}  // namespace quarry
