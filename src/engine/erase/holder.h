// A logical volume that holds free extents while they are zeroed (the holder), so that no other volume gets
// them meanwhile. It carries the creating marker: after a crash the next start removes it like any unfinished
// volume. All functions are called under the pool's turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/erase/zeroing.h"
#include "engine/model/catalog.h"
#include "engine/world.h"
#include "lvm/layout.h"

namespace quarry::engine {

struct Pool;

// The free space within `held`, for a plan that must take exactly those extents.
lvm::FreeSpace SpaceWithin(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& held);

struct Hold {
  std::string lv_name;                       // of the holder, from NewLvName()
  std::vector<lvm::PhysicalRange> held;      // the extents of the holder; all are free
  std::vector<lvm::PhysicalRange> cleared;   // those of `held` that read as zeroes after success
  std::vector<lvm::PhysicalRange> to_write;  // those of `cleared` that are not known to be zeroed
};
// Creates the holder, whose name is in `pool.making` from then on. Begins no writing. After a failure the
// holder is removed, or the eraser will remove it when it is woken.
Result<std::shared_ptr<Zeroing>> HoldExtents(Pool& pool, const Catalog& catalog, Hold hold,
                                             const World& world, const Call& call);

// Removes the holder. Records its extents as zeroed if the zeroing succeeded and the holder still had them.
// If another process commits meanwhile, it tries again, a few times. False: another process has removed or
// moved the holder, so others may have used the extents.
Result<bool> GiveBackExtents(Pool& pool, const Zeroing& zeroing, const World& world, const Call& call);

}  // namespace quarry::engine
