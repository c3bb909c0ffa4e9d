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

// `block` has kRaidSuperblock bytes. kNotFound: it is all zeroes, as LVM makes it before the array is first
// started. kCorrupt: there is no such superblock, or it contradicts itself.
Result<RaidSuperblock> ParseRaidSuperblock(std::span<const std::byte> block);

// Notes in a block that ParseRaidSuperblock takes what the array is to start from.
void SetRaidStart(std::span<std::byte> block, const RaidStart& start);

// How long the bitmap is whose first kRaidSuperblock bytes these are, in bytes. kCorrupt: it is none.
Result<size_t> RaidBitmapSize(std::span<const std::byte> start);

// `bitmap` is as long as RaidBitmapSize says, or longer. kCorrupt: it is none.
Result<RaidBitmap> ParseRaidBitmap(std::span<const std::byte> bitmap);

// Marks these regions, one for each that the bitmap has, and no others. Nothing else of it changes. `bitmap`
// and kCorrupt as above; also if it has more or fewer regions.
Status MarkRegions(std::span<std::byte> bitmap, const std::vector<bool>& marked);

// Marks all regions as written to since the array was last whole, and the bitmap as current where that is the
// array's count of events. `bitmap` and kCorrupt as above.
Status MarkAllRegions(std::span<std::byte> bitmap, uint64_t events);

}  // namespace quarry::dm
