// Superblocks of raid legs on block devices.
#pragma once

#include <vector>

#include "dm/raid_legs_api.h"

namespace quarry::dm {

// Stateless. Past the page cache, as the kernel writes them.
class BlockRaidLegs final : public RaidLegsApi {
 public:
  Result<RaidSuperblock> Read(const EraseRange& place) override;
  Status Write(const EraseRange& place, const RaidSuperblock& was, const std::vector<bool>& failed,
               bool resync) override;
};

}  // namespace quarry::dm
