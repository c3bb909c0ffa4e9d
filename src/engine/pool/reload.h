// Plans that make the kernel load another table for a volume that is in use.
#pragma once

#include <set>
#include <string>

#include "base/call.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/plan/actions.h"
#include "engine/pool/pool.h"

namespace quarry::engine {

// Runs `plan`, counted (RunCounted), which changes the tables of this volume; the caller has the pool's turn.
// LVM's new tables permit writes: a volume that was read-only, such as a raw one that is published so, is
// made read-only again after each of them. If the plan fails, the volume is neither left suspended, as a
// killed LVM leaves it, nor writable.
Status RunReloading(Pool& pool, const World& world, const Logger& log, const lvm::VolumeGroup& group,
                    const lvm::LogicalVolume& volume, Plan plan, const Call& call);

// Separates the store of a copy that has ended from its volume `kept` (plan/plan_cow.h).
Status EndKeeping(Pool& pool, const World& world, const Logger& log, const Record& store,
                  const lvm::LogicalVolume& kept, const std::set<std::string>& given_up, const Call& call);

// Removes the devices that a failed or killed lvcreate leaves of a store that is not bound to its volume: of
// the store, and a second one on the extents of the volume, below it. LVM does not see the latter any more.
// They must go before anything else happens: with RAID that is a second array on the same legs. A device that
// is in use stays.
void DropDevicesOfStore(const World& world, const Record& store, const Call& call);

}  // namespace quarry::engine
