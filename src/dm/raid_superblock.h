// The superblock of dm-raid and the bitmap behind it, byte by byte (drivers/md/dm-raid.c: struct
// dm_raid_superblock, drivers/md/md-bitmap.h: struct bitmap_super_s). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "dm/raid_legs_api.h"

namespace quarry::dm {

// `block` has kRaidSuperblock bytes. kNotFound: all zeroes, as LVM writes them before the array is first
// started. kCorrupt: not such a superblock, or it contradicts itself.
Result<RaidSuperblock> ParseRaidSuperblock(std::span<const std::byte> block);

// Writes start instructions into a block that ParseRaidSuperblock accepts.
void SetRaidStart(std::span<std::byte> block, const RaidStart& start);

// Length in bytes of the bitmap that begins with these kRaidSuperblock bytes. kCorrupt: not a bitmap.
Result<size_t> RaidBitmapSize(std::span<const std::byte> start);

// `bitmap` is as long as RaidBitmapSize says, or longer. kCorrupt: not a bitmap.
Result<RaidBitmap> ParseRaidBitmap(std::span<const std::byte> bitmap);

// Marks exactly these regions; `marked` has one entry for each region of the bitmap. Nothing else changes.
// `bitmap` and kCorrupt as above. Also kCorrupt: the number of regions differs.
Status MarkRegions(std::span<std::byte> bitmap, const std::vector<bool>& marked);

// Marks all regions as written to since the array was last complete, and sets the event count at which the
// bitmap is current. `bitmap` and kCorrupt as above.
Status MarkAllRegions(std::span<std::byte> bitmap, uint64_t events);

}  // namespace quarry::dm
