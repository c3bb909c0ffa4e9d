#include "mount/zeroes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

namespace quarry::mount {
namespace {

constexpr uint64_t kEnd = kMiB.value;
constexpr uint64_t kBetween = uint64_t{64} << 10;
constexpr uint64_t kPlaces = 62;
constexpr uint64_t kSmall = 16 * kMiB.value;  // devices up to this size are read completely
constexpr uint64_t kAlignment = 4096;         // of offsets and memory: O_DIRECT requires logical blocks

uint64_t Aligned(uint64_t offset) {
  return offset / kAlignment * kAlignment;
}

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<char, Free>;

// Reads as much as there is: less than `length` only at the end of the file.
Result<size_t> ReadAt(int fd, char* memory, uint64_t length, uint64_t offset) {
  size_t got = 0;
  while (got < length) {
    const ssize_t n = pread(fd, memory + got, length - got, static_cast<off_t>(offset + got));
    if (n == 0) {
      break;
    }
    if (n > 0) {
      got += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      return ErrnoError(fmt::format("reading {} bytes at {}", length, offset));
    }
  }
  return got;
}

}  // namespace

std::vector<Sample> SamplesOf(Bytes size) {
  std::vector<Sample> samples;
  if (size.value <= kSmall) {
    for (uint64_t offset = 0; offset < size.value; offset += kEnd) {
      samples.push_back({Bytes{offset}, Bytes{std::min(kEnd, size.value - offset)}});
    }
    return samples;
  }
  const uint64_t last = Aligned(size.value - kEnd);
  samples.push_back({Bytes{0}, Bytes{kEnd}});
  const uint64_t step = (last - kEnd) / (kPlaces + 1);
  for (uint64_t i = 1; i <= kPlaces; ++i) {
    samples.push_back({Bytes{Aligned(kEnd + i * step)}, Bytes{kBetween}});
  }
  samples.push_back({Bytes{last}, Bytes{size.value - last}});
  return samples;
}

Result<std::optional<Bytes>> FindNonZero(int fd, Bytes size, std::chrono::steady_clock::time_point deadline) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0 && errno != EINVAL)) {
    return ErrnoError("preparing to read past the page cache");
  }
  const Buffer buffer(static_cast<char*>(std::aligned_alloc(kAlignment, kEnd + kAlignment)));
  if (buffer == nullptr) {
    return Error(Code::kInternal, "no memory to read a device");
  }
  for (const Sample& sample : SamplesOf(size)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(Code::kTimeout, "reads too slowly to see whether it is empty");
    }
    QUARRY_ASSIGN(const size_t got, ReadAt(fd, buffer.get(), sample.length.value, sample.offset.value));
    const char* const end = buffer.get() + got;
    const char* const found =
        std::find_if(static_cast<const char*>(buffer.get()), end, [](char c) { return c != 0; });
    if (found != end) {
      return std::optional(Bytes{sample.offset.value + static_cast<uint64_t>(found - buffer.get())});
    }
  }
  return std::optional<Bytes>();
}

}  // namespace quarry::mount
