#include "mount/zeroes.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/direct_io.h"

namespace quarry::mount {
namespace {

constexpr uint64_t kEnd = kMiB.value;
constexpr uint64_t kBetween = uint64_t{64} << 10;
constexpr uint64_t kPlaces = 62;
constexpr uint64_t kSmall = 16 * kMiB.value;  // devices up to this size are read completely

uint64_t Aligned(uint64_t offset) {
  return offset / kDirectAlignment * kDirectAlignment;
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
  QUARRY_TRY(BypassPageCache(fd));
  const DirectBuffer buffer = MakeDirectBuffer(kEnd + kDirectAlignment);
  if (buffer == nullptr) {
    return Error(Code::kInternal, "no memory to read a device");
  }
  for (const Sample& sample : SamplesOf(size)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(Code::kTimeout, "reads too slowly to see whether it is empty");
    }
    const std::span<std::byte> piece(buffer.get(), sample.length.value);
    QUARRY_ASSIGN(const size_t got, ReadWhole(fd, piece, sample.offset.value));
    const auto read = piece.first(got);
    const auto found = std::ranges::find_if(read, [](std::byte b) { return b != std::byte{}; });
    if (found != read.end()) {
      return std::optional(Bytes{sample.offset.value + static_cast<uint64_t>(found - read.begin())});
    }
  }
  return std::optional<Bytes>();
}

}  // namespace quarry::mount
