// What pods may have of a pool as inline volumes: whoever may make a pod may ask for one. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/types.h"
#include "lvm/layout.h"

namespace quarry::engine {

// How large one may be, and which setting says so ("--ephemeral-max-size", "ephemeral of pool 'x'").
struct EphemeralMost {
  Bytes size;  // 0: there are none in this pool
  std::string setting;
};
// Once one pool says what it gives, the others give nothing unless they say so too, and `general` counts for
// none.
EphemeralMost EphemeralMostOf(const std::vector<PoolConfig>& pools, Bytes general, const PoolConfig& pool);

// Whether a pod may ask the pool for this. kInvalidArgument naming the attribute and the setting.
Status CheckEphemeralRequest(const EphemeralMost& most, const PoolConfig& pool,
                             const EphemeralRequest& request);

// Whether one more, placed so, stays within the pool's total and number. Those that are being erased count:
// their space is not free yet. kNoSpace naming the setting.
Status CheckEphemeralRoom(const Catalog& catalog, const PoolConfig& pool, const lvm::Placement& placement);

}  // namespace quarry::engine
