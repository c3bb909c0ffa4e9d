// The few fields of an ext4 superblock that define its size (kernel documentation:
// filesystems/ext4/globals.rst). Pure.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "mount/filesystems.h"

namespace quarry::mount {

inline constexpr uint64_t kExt4SuperblockOffset = 1024;
inline constexpr size_t kExt4SuperblockSize = 1024;

// kCorrupt if the bytes are not an ext superblock.
Result<Measured> MeasureExt4(std::span<const std::byte> superblock);

}  // namespace quarry::mount
