#include "thin/superblock.h"

#include <fmt/format.h>

#include "base/little_endian.h"
#include "thin/block_check.h"

namespace quarry::thin {
namespace {

constexpr uint32_t kSalt = 160774;
constexpr uint64_t kMagic = 27022010;
constexpr uint64_t kOldestVersion = 1;  // thin_restore and thin_repair 0.9 write 1, the kernel 2
constexpr uint64_t kVersion = 2;
constexpr uint64_t kNeedsCheck = 1;
constexpr uint64_t kSector = 512;
constexpr Bytes kMinDataBlock{64 * 1024};

// Offsets of the fields.
constexpr size_t kFlags = 4, kNumber = 8, kMagicAt = 32, kVersionAt = 40, kTime = 44, kTransaction = 48,
                 kHeld = 56;
constexpr size_t kDataMap = 64, kMetadataMap = 192, kMappingRoot = 320, kDetailsRoot = 328,
                 kDataBlockSize = 336;
constexpr size_t kMetadataBlockSize = 340, kIncompatible = 360;

Error Corrupt(uint64_t block, std::string_view what) {
  return {Code::kCorrupt, fmt::format("metadata block {}: superblock: {}", block, what)};
}

Status CheckValues(const Superblock& superblock, uint64_t metadata_sectors, uint64_t block) {
  if (metadata_sectors * kSector != kBlockSize) {
    return Corrupt(block, fmt::format("metadata blocks of {} sectors, must be of 8", metadata_sectors));
  }
  const uint64_t size = superblock.data_block_size.value;
  if (size == 0 || size % kMinDataBlock.value != 0 || size > kGiB.value) {
    return Corrupt(
        block, fmt::format("data blocks of {} bytes, must be a multiple of 64 KiB and at most 1 GiB", size));
  }
  if (superblock.data_blocks > kMaxDataBlocks || superblock.data_blocks_used > superblock.data_blocks) {
    return Corrupt(
        block, fmt::format("{} of {} data blocks used", superblock.data_blocks_used, superblock.data_blocks));
  }
  if (superblock.metadata_blocks_used > superblock.metadata_blocks) {
    return Corrupt(block, fmt::format("{} of {} metadata blocks used", superblock.metadata_blocks_used,
                                      superblock.metadata_blocks));
  }
  return Ok();
}

}  // namespace

Result<Superblock> ParseSuperblock(std::span<const std::byte, kBlockSize> bytes, uint64_t block) {
  const auto number = [&](size_t offset, size_t width) { return little_endian::Load(bytes, offset, width); };
  // The magic number first: the checksum of a block of another kind is wrong as well, and says less.
  if (number(kMagicAt, 8) != kMagic) {
    return Corrupt(block, "no magic number of a thin pool");
  }
  QUARRY_TRY(CheckBlock(bytes, block, number(kNumber, 8), kSalt));
  const uint64_t version = number(kVersionAt, 4), features = number(kIncompatible, 4);
  if (version < kOldestVersion || version > kVersion || features != 0) {
    return Error(Code::kUnsupported,
                 fmt::format("metadata block {}: superblock of version {} with features {:#x}, must be of "
                             "version {} or {} without features",
                             block, version, features, kOldestVersion, kVersion));
  }
  Superblock superblock{
      .transaction_id = number(kTransaction, 8),
      .time = static_cast<uint32_t>(number(kTime, 4)),
      .needs_check = (number(kFlags, 4) & kNeedsCheck) != 0,
      .data_block_size = Bytes{number(kDataBlockSize, 4) * kSector},
      .data_blocks = number(kDataMap, 8),
      .data_blocks_used = number(kDataMap + 8, 8),
      .metadata_blocks = number(kMetadataMap, 8),
      .metadata_blocks_used = number(kMetadataMap + 8, 8),
      .mapping_root = number(kMappingRoot, 8),
      .details_root = number(kDetailsRoot, 8),
  };
  if (const uint64_t held = number(kHeld, 8); held != 0) {
    superblock.held_root = held;
  }
  QUARRY_TRY(CheckValues(superblock, number(kMetadataBlockSize, 4), block));
  return superblock;
}

}  // namespace quarry::thin
