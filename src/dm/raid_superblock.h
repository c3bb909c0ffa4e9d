// The superblock of dm-raid, byte by byte (drivers/md/dm-raid.c: struct dm_raid_superblock). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "dm/raid_legs_api.h"

namespace quarry::dm {

// `block` has kRaidSuperblock bytes. kCorrupt: there is no such superblock, or it contradicts itself.
Result<RaidSuperblock> ParseRaidSuperblock(std::span<const std::byte> block);

// Changes, in a block that ParseRaidSuperblock takes, which legs count as failed; `resync`: and that all
// legs are to be compared, and the parity or copies made anew from the data, when the array starts.
void SetFailedLegs(std::span<std::byte> block, const std::vector<bool>& failed, bool resync);

}  // namespace quarry::dm
