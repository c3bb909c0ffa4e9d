// Sizes: the extents that a capacity range means on a given volume group, and how much a pool can still give.
// Pure.
#pragma once

#include "base/result.h"
#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/volume_requests.h"
#include "lvm/layout.h"

namespace quarry::engine {

// Extents of a new volume. kOutOfRange if no size between required and limit is a whole number of granules,
// or the limit is below `least`. The error names the field and the nearest sizes that work.
Result<Extents> SizeForCreate(const CapacityRange& range, const lvm::Geometry& geometry, Bytes extent_size,
                              Bytes default_size, Bytes least);

// Extents of a volume after growth from `current`; `current` itself if it satisfies the range. kOutOfRange as
// above.
Result<Extents> SizeForExpand(const CapacityRange& range, const lvm::Geometry& geometry, Bytes extent_size,
                              Extents current);

// Free space of the pool for plans: the group's, without excluded disks and without the reserve.
lvm::FreeSpace PoolSpace(const Catalog& catalog, const PoolConfig& pool);

// The largest volume of this geometry that can be made now: placeable, and within the share of its type.
Extents Largest(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry);

// Extents of the group, all legs counted, that volumes of `type` may still take. Without shares: all extents.
Extents ShareLeft(const Catalog& catalog, const PoolConfig& pool, lvm::VolumeType type);
// kNoSpace if `more` extents of data exceed the rest of the type's share. `fresh`: metadata legs count too.
Status CheckShare(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry, Extents more,
                  bool fresh);

// OK if a volume of exactly `size` extents can be made now; else the errors of CheckShare and lvm::Place.
Status CheckRoom(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry, Extents size);

// Bytes in volumes that are being erased. They will be free soon.
Bytes ErasingBytes(const Catalog& catalog);
// Bytes of free space that a logical volume holds while they are zeroed (erase/free_zeroing.h).
Bytes FreeZeroingBytes(const Catalog& catalog);
// PoolSpace with what is held for that: the space that may be promised. A plan cannot use it as it is.
lvm::FreeSpace PoolSpaceAfterZeroing(const Catalog& catalog, const PoolConfig& pool);
// The same as if every volume that is being erased were free already, too.
lvm::FreeSpace PoolSpaceAfterErasing(const Catalog& catalog, const PoolConfig& pool);

// kInvalidArgument if this kernel has no device-mapper target for volumes of this geometry. Loads the kernel
// module if necessary.
Status CheckTarget(dm::DmApi& dm, const lvm::Geometry& geometry);

// OK if the group's limit permits another logical volume (vgchange --maxlogicalvolumes). kUnavailable if
// volumes that are being erased will make room; else kNoSpace.
Status CheckVolumeLimit(const Catalog& catalog);

}  // namespace quarry::engine
