#include "dm/raid_superblock.h"

#include <array>

#include <fmt/format.h>

namespace quarry::dm {
namespace {

// Little-endian; offsets in bytes. The part up to `array_resync_offset` is the same in every version.
constexpr size_t kMagic = 0;             // u32
constexpr size_t kLegs = 8;              // u32 num_devices
constexpr size_t kRole = 12;             // u32 array_position
constexpr size_t kEvents = 16;           // u64
constexpr size_t kFailed = 24;           // u64 failed_devices: a bit per leg
constexpr size_t kRecovery = 32;         // u64 disk_recovery_offset
constexpr size_t kResync = 40;           // u64 array_resync_offset
constexpr size_t kExtendedFailed = 120;  // u64[3]: the bits of legs 64 to 252 (since 4.8)
constexpr uint32_t kMagicWord = 0x64526d44;
constexpr uint64_t kDone = UINT64_MAX;  // of the two offsets
constexpr uint32_t kMostLegs = 253;
constexpr uint32_t kBits = 64;

uint64_t Read(std::span<const std::byte> block, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<uint64_t>(block[at + i]) << (8 * i);
  }
  return value;
}

void Write64(std::span<std::byte> block, size_t at, uint64_t value) {
  for (size_t i = 0; i < sizeof(value); ++i) {
    block[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

size_t FailedWord(size_t leg) {
  return leg < kBits ? kFailed : kExtendedFailed + (leg / kBits - 1) * sizeof(uint64_t);
}

}  // namespace

Result<RaidSuperblock> ParseRaidSuperblock(std::span<const std::byte> block) {
  if (block.size() < kRaidSuperblock || Read(block, kMagic, 4) != kMagicWord) {
    return Error(Code::kCorrupt, "no superblock of dm-raid");
  }
  RaidSuperblock out{.legs = static_cast<uint32_t>(Read(block, kLegs, 4)),
                     .role = static_cast<uint32_t>(Read(block, kRole, 4)),
                     .events = Read(block, kEvents, 8),
                     .failed = {},
                     .filled = Read(block, kRecovery, 8) == kDone,
                     .in_sync = Read(block, kResync, 8) == kDone};
  if (out.legs < 2 || out.legs > kMostLegs || out.role >= out.legs) {
    return Error(Code::kCorrupt, fmt::format("a superblock of leg {} of {}", out.role, out.legs));
  }
  for (uint32_t leg = 0; leg < out.legs; ++leg) {
    out.failed.push_back(((Read(block, FailedWord(leg), 8) >> (leg % kBits)) & 1) != 0);
  }
  return out;
}

void SetFailedLegs(std::span<std::byte> block, const std::vector<bool>& failed, bool resync) {
  std::array<uint64_t, 4> words{};
  for (size_t leg = 0; leg < failed.size(); ++leg) {
    words.at(leg / kBits) |= static_cast<uint64_t>(failed[leg]) << (leg % kBits);
  }
  for (size_t word = 0; word < words.size() && word * kBits < failed.size(); ++word) {
    Write64(block, FailedWord(word * kBits), words.at(word));
  }
  if (resync) {
    Write64(block, kResync, 0);
  }
}

}  // namespace quarry::dm
