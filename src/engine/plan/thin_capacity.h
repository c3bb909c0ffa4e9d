// What a thin store can give now. Everything that GetCapacity asks for volumes with type=thin.
#pragma once

#include "base/units.h"
#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/profile.h"
#include "engine/volumes.h"

namespace quarry::engine {

// The largest volume that the store of this profile can make now, and the reason if there is none: the
// profile means no store, or the store is not started, is unsound or full, or LVM makes nothing in the group
// now. `least_size`: the smallest size that is useful to the caller. Asks the kernel for the pool's status.
// May be called from any thread.
CapacityResult ThinCapacityIn(const Catalog& catalog, const PoolConfig& pool, const Profile& profile,
                              Bytes least_size, dm::DmApi& dm);

}  // namespace quarry::engine
