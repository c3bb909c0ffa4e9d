// Sizes: what a capacity range becomes on a given volume group, and what a pool can still give. Pure.
#pragma once

#include "base/result.h"
#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/types.h"
#include "lvm/layout.h"

namespace quarry::engine {

// Extents of a new volume. kOutOfRange naming the field and the nearest sizes that work, when no size between
// required and limit is a whole number of granules, or the limit is below `least`.
Result<Extents> SizeForCreate(const CapacityRange& range, const lvm::Geometry& geometry, Bytes extent_size,
                              Bytes default_size, Bytes least);

// Extents of a volume after growth from `current`. `current` itself if that satisfies the range.
Result<Extents> SizeForExpand(const CapacityRange& range, const lvm::Geometry& geometry, Bytes extent_size,
                              Extents current);

// Free room of the pool as a promise may use it: the group's, less disks that get nothing new and the
// reserve.
lvm::FreeSpace PoolSpace(const Catalog& catalog, const PoolConfig& pool);

// The largest volume of this geometry that can be made now: what can be placed, within the share of its type.
Extents Largest(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry);
// By how much an existing volume can grow now, by the same rules.
Extents LargestGrowth(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry,
                      const lvm::LogicalVolume& lv);

// Extents of the group, all legs counted, that volumes of `type` may still take. Without shares: all of them.
Extents ShareLeft(const Catalog& catalog, const PoolConfig& pool, lvm::VolumeType type);
// kNoSpace if `more` extents of data exceed what is left of the type's share; `fresh` counts metadata legs
// too.
Status CheckShare(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry, Extents more,
                  bool fresh);

// Whether a volume of exactly `size` extents can be made now, and if not, why: the errors of CheckShare and
// lvm::Place.
Status CheckRoom(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry, Extents size);

// Bytes in volumes that are being erased and will be free soon.
Bytes ErasingBytes(const Catalog& catalog);
// The same room as if everything that is being erased were free already.
lvm::FreeSpace PoolSpaceAfterErasing(const Catalog& catalog, const PoolConfig& pool);

// kInvalidArgument if this kernel has no device-mapper target for volumes of this geometry. Loads the module
// if need be.
Status CheckTarget(dm::DmApi& dm, const lvm::Geometry& geometry);

// Whether the group takes one logical volume more (vgchange --maxlogicalvolumes). kNoSpace; kUnavailable if
// volumes that are being erased will make room.
Status CheckVolumeLimit(const Catalog& catalog);

}  // namespace quarry::engine
