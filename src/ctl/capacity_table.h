// The largest volume that each profile can still get, pool by pool. Pure except for the check of kernel
// targets.
#pragma once

#include <string>
#include <vector>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/profile.h"

namespace quarry::ctl {

struct CapacityRow {
  std::string profile;  // "raid5 with 2 stripes"
  Bytes largest;
  Bytes granule;
  Extents legs;        // 0: a volume in a thin store, which has no legs of its own
  std::string reason;  // why largest is 0
};

struct CapacityTable {
  std::string pool, group;
  Bytes total, free, reserve, erasing;
  std::vector<CapacityRow> rows;
};

// A row for the layout of this profile, or for the thin store that it means. nullptr: rows for every type in
// its usual geometries, and for every thin store that is made or configured.
CapacityTable BuildCapacityTable(const engine::PoolConfig& pool, const engine::Catalog& catalog,
                                 const engine::Profile* profile, dm::DmApi& dm);
std::string DrawCapacityTable(const CapacityTable& table);
std::string CapacityJson(const CapacityTable& table);

}  // namespace quarry::ctl
