// What a thin store can give now. Everything that GetCapacity asks for volumes with type=thin.
#pragma once

#include "base/units.h"
#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/profile.h"
#include "engine/volumes.h"

namespace quarry::engine {

// OK if something may be made in this store, or grow in it. kNoSpace: it is overcommitted, and so much of its
// data is in use that StoreConfig::refuse says no.
Status CheckFill(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                 const dm::ThinPoolStatus& status);

// The largest volume that the store of this profile can make now, if it grows as far as it can. If that is 0,
// the result says why: the profile means no store; the store is not started, not sound, or full; or LVM makes
// nothing in the group now. `least_size`: the smallest size that is useful to the caller. Asks the kernel for
// the pool's status. May be called from any thread.
CapacityResult ThinCapacityIn(const Catalog& catalog, const PoolConfig& pool, const Profile& profile,
                              Bytes least_size, dm::DmApi& dm);

}  // namespace quarry::engine
