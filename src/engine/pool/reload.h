// Plans that make the kernel load another table for a volume that is in use.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/plan/actions.h"
#include "engine/pool/pool.h"

namespace quarry::engine {

// Runs the plan that `make` returns, counted (RunCounted); the caller has the pool's turn. Whatever it ends
// with, the volume with this device-mapper UUID is not suspended afterwards, as a killed LVM leaves it, and
// is read-only if it was before, which LVM forgets. `make` is told whether it is.
Status RunReloading(Pool& pool, const World& world, const lvm::VolumeGroup& group,
                    const lvm::LogicalVolume& volume, const std::function<Plan(bool read_only)>& make,
                    const Call& call);

// Separates the store of a copy that has ended from its volume `kept` (plan/plan_cow.h).
Status EndKeeping(Pool& pool, const World& world, const Record& store, const lvm::LogicalVolume& kept,
                  const std::set<std::string>& given_up, const Call& call);

// Removes the devices that a failed or killed lvcreate leaves of a store that is not bound to its volume: of
// the store, and a second one on the extents of the volume, below it. LVM does not see the latter any more.
// They must go before anything else happens: with RAID that is a second array on the same legs. A device that
// is in use stays.
void DropDevicesOfStore(const World& world, const Record& store, const Call& call);

}  // namespace quarry::engine
