// The status line of device-mapper's raid target.
#pragma once

#include <string>

#include "base/result.h"
#include "dm/dm_api.h"

namespace quarry::dm {

// Parses the output of DM_TABLE_STATUS for a raid target, without start, length and the word "raid", as in
// "raid1 2 AD 409600/409600 idle 0 0 -" (libdevmapper's dm_get_status_raid). kCorrupt: not such a line, or
// the line contradicts itself. Pure.
Result<RaidStatus> ParseRaidStatus(const std::string& parameters);

}  // namespace quarry::dm
