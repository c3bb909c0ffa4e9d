// Numbers as disks hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quarry::little_endian {

// The number in `width` bytes, at most 8, from `offset` on. All of them must be in `bytes`.
inline uint64_t Load(std::span<const std::byte> bytes, size_t offset, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= std::to_integer<uint64_t>(bytes[offset + i]) << (8 * i);
  }
  return value;
}

}  // namespace quarry::little_endian
