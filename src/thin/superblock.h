// The superblock of a pool's metadata: pure. Layout: struct thin_disk_superblock of the kernel's
// dm-thin-metadata.c.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "thin/block_source.h"

namespace quarry::thin {

// The kernel uses no more metadata than 255 bitmaps of its space map describe, just below 16 GiB.
inline constexpr uint64_t kMaxMetadataBlocks = uint64_t{255} * (kBlockSize - 16) * 4;
// A mapping has 40 bits for the data block.
inline constexpr uint64_t kMaxDataBlocks = uint64_t{1} << 40;

struct Superblock {
  uint64_t transaction_id = 0;  // the user's, LVM's: not the pool's time
  uint32_t time = 0;            // of the pool: the number of snapshots made
  bool needs_check = false;
  std::optional<uint64_t> held_root;  // the block with the superblock of the metadata snapshot
  Bytes data_block_size;
  // From the space maps. A metadata snapshot has none: all four are 0 in its superblock.
  uint64_t data_blocks = 0;
  uint64_t data_blocks_used = 0;
  uint64_t metadata_blocks = 0;
  uint64_t metadata_blocks_used = 0;
  uint64_t mapping_root = 0;  // tree: device -> root of the tree of its mappings
  uint64_t details_root = 0;  // tree: device -> its details
};

// kCorrupt, naming the block: a wrong checksum, block number or magic number, or a value that the kernel does
// not write. kUnsupported: a version or features that this code does not know.
Result<Superblock> ParseSuperblock(std::span<const std::byte, kBlockSize> bytes, uint64_t block);

}  // namespace quarry::thin
