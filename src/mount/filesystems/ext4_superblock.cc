#include "mount/filesystems/ext4_superblock.h"

#include <algorithm>

#include "base/result.h"

namespace quarry::mount {
namespace {

// Offsets within struct ext4_super_block; all fields are little-endian.
enum Field : size_t {
  kBlocksCountLow = 0x04,
  kLogBlockSize = 0x18,
  kBlocksPerGroup = 0x20,
  kInodesPerGroup = 0x28,
  kMagic = 0x38,
  kInodeSize = 0x58,
  kFeatureIncompat = 0x60,
  kReservedGdtBlocks = 0xCE,
  kDescriptorSize = 0xFE,
  kBlocksCountHigh = 0x150,
};
constexpr uint16_t kExtMagic = 0xEF53;
constexpr uint32_t kIncompat64Bit = 0x80;
// resize2fs does not start a group with fewer data blocks than this.
constexpr uint64_t kLeastDataBlocks = 50;

template <typename T>
T Load(std::span<const std::byte> raw, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(raw[offset + i]) << (8 * i)));
  }
  return value;
}

}  // namespace

Result<Measured> MeasureExt4(std::span<const std::byte> superblock) {
  if (superblock.size() < kExt4SuperblockSize || Load<uint16_t>(superblock, kMagic) != kExtMagic) {
    return Error(Code::kCorrupt, "no ext4 superblock");
  }
  const auto shift = Load<uint32_t>(superblock, kLogBlockSize);
  const uint64_t per_group = Load<uint32_t>(superblock, kBlocksPerGroup);
  if (shift > 6 || per_group == 0) {
    return Error(Code::kCorrupt, "ext4 superblock with an impossible block or group size");
  }
  const uint64_t block = uint64_t{1024} << shift;
  const bool wide = (Load<uint32_t>(superblock, kFeatureIncompat) & kIncompat64Bit) != 0;
  const uint64_t high = wide ? Load<uint32_t>(superblock, kBlocksCountHigh) : 0;
  const uint64_t blocks = (high << 32) | Load<uint32_t>(superblock, kBlocksCountLow);
  if (blocks > UINT64_MAX / block) {
    return Error(Code::kCorrupt, "ext4 superblock with an impossible block count");
  }

  // A last group is started only if its own metadata fits: superblock and descriptors, blocks reserved for
  // more descriptors, two bitmaps, the inode table.
  const uint64_t descriptor = wide ? std::max<uint64_t>(Load<uint16_t>(superblock, kDescriptorSize), 32) : 32;
  const uint64_t groups = blocks / per_group + 1;
  const uint64_t descriptors = groups * descriptor / block + 1;
  const uint64_t inodes =
      uint64_t{Load<uint32_t>(superblock, kInodesPerGroup)} * Load<uint16_t>(superblock, kInodeSize) / block +
      1;
  const uint64_t metadata =
      3 + descriptors + Load<uint16_t>(superblock, kReservedGdtBlocks) + inodes + kLeastDataBlocks;
  return Measured{{blocks * block}, {std::min(metadata, per_group) * block}};
}

}  // namespace quarry::mount
