// The largest volume that each profile can still get, pool by pool. Pure except for the check of kernel
// targets.
#pragma once

#include <string>
#include <vector>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"

namespace quarry::ctl {

struct CapacityRow {
  std::string profile;  // "raid5 with 2 stripes"
  Bytes largest;
  Bytes granule;
  Extents legs;
  std::string reason;  // why largest is 0
};

struct CapacityTable {
  std::string pool, group;
  Bytes total, free, reserve, erasing;
  std::vector<CapacityRow> rows;
};

// Rows for `geometries`; if `geometries` is empty, rows for every type in its usual geometries.
CapacityTable BuildCapacityTable(const engine::PoolConfig& pool, const engine::Catalog& catalog,
                                 std::vector<lvm::Geometry> geometries, dm::DmApi& dm);
std::string DrawCapacityTable(const CapacityTable& table);
std::string CapacityJson(const CapacityTable& table);

}  // namespace quarry::ctl
