// What pods may take of a pool as inline volumes. Limits are needed because anyone who may create a pod may
// ask for an inline volume. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/volume_requests.h"
#include "lvm/layout.h"

namespace quarry::engine {

// The largest size of an inline volume, and the setting that gives it ("--ephemeral-max-size", "ephemeral of
// pool 'x'").
struct EphemeralMost {
  Bytes size;  // 0: this pool has no inline volumes
  std::string setting;
};
// If any pool sets a size of its own, pools without one have no inline volumes, and `general` is not used.
EphemeralMost EphemeralMostOf(const std::vector<PoolConfig>& pools, Bytes general, const PoolConfig& pool);

// OK if a pod may ask the pool for this. kInvalidArgument names the attribute and the setting.
Status CheckEphemeralRequest(const EphemeralMost& most, const PoolConfig& pool,
                             const EphemeralRequest& request);

// OK if another inline volume with this placement stays within the pool's limits of total size and number.
// Volumes that are being erased count, because their space is not free yet. kNoSpace names the setting.
Status CheckEphemeralRoom(const Catalog& catalog, const PoolConfig& pool, const lvm::Placement& placement);

}  // namespace quarry::engine
