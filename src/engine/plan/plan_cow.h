// The temporary store of a copy whose source is in use (lvm/verbs/cow.h). It carries the tags of a deleted
// volume from its first commit on. So whatever ends the copy, the eraser separates the store from the volume,
// erases the tenant's bytes in it, and gives its extents back.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// Begins to keep the present bytes of a volume, which is active, in a new LV called `store`. `node_hash`: as
// CreateWish::node_hash. kNoSpace: the pool has no space for a store that cannot overflow.
Result<Plan> PlanKeep(const Catalog& catalog, const Record& volume, const PoolConfig& pool,
                      const std::string& store, const std::string& node_hash);

// The managed volume that a store is bound to. nullptr: it is no store, or bound to nothing, or not to the
// volume that its tags name.
const lvm::LogicalVolume* KeptVolume(const Record& store);

// Separates a store from its volume `kept`. A store that is entirely on missing disks that were given up (PV
// uuids) is removed instead: it keeps the volume from being activated, and the disks in the group. The bytes
// on those disks stay there.
Plan PlanEndKeeping(const Record& store, const lvm::LogicalVolume& kept,
                    const std::set<std::string>& given_up = {});

// Whether a snapshot is bound to the volume: a store, or somebody else's.
bool HasSnapshot(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);

}  // namespace quarry::engine
