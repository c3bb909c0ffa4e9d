// The lines that the kernel shows of a target of device-mapper: its status, and its line in a table. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dm/dm_api.h"

namespace quarry::dm {

// Parses the output of DM_TABLE_STATUS for a raid target, without start, length and the word "raid", as in
// "raid1 2 AD 409600/409600 idle 0 0 -" (libdevmapper's dm_get_status_raid). kCorrupt: not such a line, or
// the line contradicts itself.
Result<RaidStatus> ParseRaidStatus(const std::string& parameters);

struct SectorRange {
  uint64_t first = 0;
  uint64_t count = UINT64_MAX;  // UINT64_MAX: to the device's end
  bool operator==(const SectorRange&) const = default;
};

// The sectors of a block device that a target maps. `type`, `length` (in sectors) and `parameters` as
// DM_TABLE_STATUS returns them with the flag for tables. `device` as tables name it, "8:16". Empty if the
// table does not name the device. The whole device, if the target's type does not tell which sectors it maps.
std::vector<SectorRange> SectorsTaken(std::string_view type, uint64_t length, std::string_view parameters,
                                      std::string_view device);

}  // namespace quarry::dm
