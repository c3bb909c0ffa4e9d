// Sizes as types, so that bytes and LVM extents never mix by accident.
#pragma once

#include <compare>  // IWYU pragma: keep: for <=>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quarry {

struct Bytes {
  uint64_t value = 0;
  auto operator<=>(const Bytes&) const = default;
  Bytes operator+(Bytes other) const { return {value + other.value}; }
  Bytes operator-(Bytes other) const { return {value - other.value}; }
};

inline constexpr Bytes kKiB{1024};
inline constexpr Bytes kMiB{1024 * 1024};
inline constexpr Bytes kGiB{1024ULL * 1024 * 1024};

// A number of physical or logical extents. The size of an extent depends on the volume group.
struct Extents {
  uint64_t value = 0;
  auto operator<=>(const Extents&) const = default;
  Extents operator+(Extents other) const { return {value + other.value}; }
  Extents operator-(Extents other) const { return {value - other.value}; }
  Extents& operator+=(Extents other) {
    value += other.value;
    return *this;
  }
};

constexpr Bytes ToBytes(Extents extents, Bytes extent_size) {
  return {extents.value * extent_size.value};
}
// The smallest number of extents that holds `bytes`. extent_size must not be zero. Cannot overflow.
constexpr Extents CeilToExtents(Bytes bytes, Bytes extent_size) {
  return {bytes.value / extent_size.value + (bytes.value % extent_size.value != 0 ? 1 : 0)};
}

// "4 MiB", "1.50 GiB", "513 B": for people. If the exact size matters, the message must also give it in
// bytes.
std::string HumanBytes(Bytes bytes);

// A size as people write it, in settings and parameters: "10GiB", "10G", "512 MiB", "4096". K, M, G, T with
// or without "iB" are powers of 1024; no suffix means bytes. Powers of 1000 ("GB") are refused: LVM's sizes
// are binary, and reading GB as GiB is 7 % off. kInvalidArgument: "must be …, is '…'"; the caller adds the
// name of the size.
Result<Bytes> ParseSize(std::string_view text);

}  // namespace quarry
