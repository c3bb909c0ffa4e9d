#include "dm/raid_superblock.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "base/little_endian.h"

namespace quarry::dm {
namespace {

using little_endian::Load;

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
constexpr uint64_t kDone = UINT64_MAX;  // of both offsets
constexpr uint32_t kMostLegs = 253;
constexpr uint32_t kBits = 64;

// The bitmap is little-endian too, with one bit per region from kRegions on.
constexpr size_t kBitmapMagic = 0;     // u32
constexpr size_t kBitmapEvents = 24;   // u64
constexpr size_t kBitmapCleared = 32;  // u64 events_cleared: the count at which the array was last complete
constexpr size_t kBitmapCovers = 40;   // u64 sync_size, in sectors
constexpr size_t kBitmapState = 48;    // u32 flags
constexpr size_t kBitmapRegion = 52;   // u32 chunksize, in bytes
constexpr std::byte kStale{1U << 1};   // BITMAP_STALE
constexpr size_t kRegions = 256;
constexpr uint32_t kBitmapMagicWord = 0x6d746962;
constexpr uint64_t kSector = 512;

void Write64(std::span<std::byte> block, size_t at, uint64_t value) {
  for (size_t i = 0; i < sizeof(value); ++i) {
    block[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

size_t FailedWord(size_t leg) {
  return leg < kBits ? kFailed : kExtendedFailed + (leg / kBits - 1) * sizeof(uint64_t);
}

struct Regions {
  uint64_t count = 0;
  uint64_t size = 0;  // sectors
};

Result<Regions> ReadRegions(std::span<const std::byte> start) {
  if (start.size() < kRaidSuperblock || Load(start, kBitmapMagic, 4) != kBitmapMagicWord) {
    return Error(Code::kCorrupt, "not a bitmap of dm-raid");
  }
  const uint64_t covers = Load(start, kBitmapCovers, 8);
  const uint64_t size = Load(start, kBitmapRegion, 4) / kSector;
  if (!std::has_single_bit(size)) {
    return Error(Code::kCorrupt, fmt::format("a bitmap of dm-raid has regions of {} sectors", size));
  }
  return Regions{.count = covers / size + (covers % size != 0 ? 1 : 0), .size = size};
}

Result<size_t> WholeSize(std::span<const std::byte> bitmap) {
  QUARRY_ASSIGN(const size_t size, RaidBitmapSize(bitmap));
  return size <= bitmap.size() ? Result<size_t>(size)
                               : Error(Code::kCorrupt, "an incomplete bitmap of dm-raid");
}

}  // namespace

Result<RaidSuperblock> ParseRaidSuperblock(std::span<const std::byte> block) {
  if (block.size() < kRaidSuperblock || Load(block, kMagic, 4) != kMagicWord) {
    const bool blank = block.size() >= kRaidSuperblock &&
                       std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
    return Error(blank ? Code::kNotFound : Code::kCorrupt, "not a superblock of dm-raid");
  }
  RaidSuperblock out{.legs = static_cast<uint32_t>(Load(block, kLegs, 4)),
                     .role = static_cast<uint32_t>(Load(block, kRole, 4)),
                     .events = Load(block, kEvents, 8),
                     .failed = {},
                     .filled = Load(block, kRecovery, 8) == kDone,
                     .synced = Load(block, kResync, 8)};
  if (out.legs < 2 || out.legs > kMostLegs || out.role >= out.legs) {
    return Error(Code::kCorrupt,
                 fmt::format("a superblock of dm-raid for leg {} of {} legs", out.role, out.legs));
  }
  for (uint32_t leg = 0; leg < out.legs; ++leg) {
    out.failed.push_back(((Load(block, FailedWord(leg), 8) >> (leg % kBits)) & 1) != 0);
  }
  return out;
}

void SetRaidStart(std::span<std::byte> block, const RaidStart& start) {
  const std::vector<bool>& failed = start.left_out;
  std::array<uint64_t, 4> words{};
  for (size_t leg = 0; leg < failed.size(); ++leg) {
    words.at(leg / kBits) |= static_cast<uint64_t>(failed[leg]) << (leg % kBits);
  }
  for (size_t word = 0; word < words.size() && word * kBits < failed.size(); ++word) {
    Write64(block, FailedWord(word * kBits), words.at(word));
  }
  if (start.resync) {
    Write64(block, kResync, 0);
  }
  if (start.events.has_value()) {
    Write64(block, kEvents, *start.events);
  }
}

Result<size_t> RaidBitmapSize(std::span<const std::byte> start) {
  QUARRY_ASSIGN(const Regions regions, ReadRegions(start));
  return kRegions + regions.count / 8 + (regions.count % 8 != 0 ? 1 : 0);
}

Result<RaidBitmap> ParseRaidBitmap(std::span<const std::byte> bitmap) {
  QUARRY_TRY(WholeSize(bitmap));
  QUARRY_ASSIGN(const Regions regions, ReadRegions(bitmap));
  RaidBitmap out{.events = Load(bitmap, kBitmapEvents, 8), .region_size = regions.size, .marked = {}};
  // The kernel also sets the unused bits of the last byte.
  out.marked.reserve(regions.count);
  for (uint64_t region = 0; region < regions.count; ++region) {
    out.marked.push_back((bitmap[kRegions + region / 8] >> (region % 8) & std::byte{1}) != std::byte{0});
  }
  return out;
}

Status MarkRegions(std::span<std::byte> bitmap, const std::vector<bool>& marked) {
  QUARRY_ASSIGN(const size_t size, WholeSize(bitmap));
  QUARRY_ASSIGN(const Regions regions, ReadRegions(bitmap));
  if (marked.size() != regions.count) {
    return Error(Code::kCorrupt,
                 fmt::format("a bitmap of dm-raid has {} regions, not {}", regions.count, marked.size()));
  }
  std::ranges::fill(bitmap.first(size).subspan(kRegions), std::byte{0});
  for (size_t region = 0; region < marked.size(); ++region) {
    if (marked[region]) {
      bitmap[kRegions + region / 8] |= std::byte{1} << (region % 8);
    }
  }
  return Ok();
}

Status MarkAllRegions(std::span<std::byte> bitmap, uint64_t events) {
  QUARRY_ASSIGN(const size_t size, WholeSize(bitmap));
  Write64(bitmap, kBitmapEvents, events);
  Write64(bitmap, kBitmapCleared, 0);
  bitmap[kBitmapState] &= ~kStale;
  std::ranges::fill(bitmap.first(size).subspan(kRegions), std::byte{0xff});
  return Ok();
}

}  // namespace quarry::dm
