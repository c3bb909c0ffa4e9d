// The abseil of Debian 12 has no CRC yet, zlib has another polynomial, and no other library of the build has
// this one. Eight tables take eight bytes in a step, which needs no instruction of a certain processor and is
// faster than a disk.
#include "thin/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace quarry::thin {
namespace {

static_assert(std::endian::native == std::endian::little, "the tables take words as they lie in memory");

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr size_t kStep = 8;
using Tables = std::array<std::array<uint32_t, 256>, kStep>;

consteval Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][byte] = value;
  }
  for (size_t step = 1; step < kStep; ++step) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[step - 1][byte];
      tables[step][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint64_t WordAt(std::span<const std::byte> bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), kStep);
  return word;
}

uint32_t ByTables(uint32_t crc, std::span<const std::byte> bytes) {
  for (; bytes.size() >= kStep; bytes = bytes.subspan(kStep)) {
    const uint64_t word = WordAt(bytes) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kStep; ++i) {
      crc ^= kTables[kStep - 1 - i][(word >> (8 * i)) & 0xff];
    }
  }
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  }
  return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t crc, std::span<const std::byte> bytes) {
  uint64_t wide = crc;
  for (; bytes.size() >= kStep; bytes = bytes.subspan(kStep)) {
    wide = __builtin_ia32_crc32di(wide, WordAt(bytes));
  }
  return ByTables(static_cast<uint32_t>(wide), bytes);
}

bool HasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#else
uint32_t ByInstruction(uint32_t crc, std::span<const std::byte> bytes) {
  return ByTables(crc, bytes);
}
bool HasInstruction() {
  return false;
}
#endif

}  // namespace

uint32_t KernelCrc32c(std::span<const std::byte> bytes) {
  constexpr uint32_t kStart = ~uint32_t{0};
  return HasInstruction() ? ByInstruction(kStart, bytes) : ByTables(kStart, bytes);
}

uint32_t KernelCrc32cByTables(std::span<const std::byte> bytes) {
  return ByTables(~uint32_t{0}, bytes);
}

}  // namespace quarry::thin
