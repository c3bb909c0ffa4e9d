// Which extents belong to which volume. This proof is required before a byte below a volume is written, and
// before a volume is removed. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Every physical extent of `lv` and its legs, proven from this snapshot to belong to this volume alone. The
// proof requires that all segment types are known, that each leg belongs to this volume only and lies
// directly on PVs, that nothing is stacked on the volume or a leg, that no extent is being moved, that LVM
// reports none of the extents as free, and that no other LV names one of them. A leg that LVM has replaced by
// an error segment has no extents. `lv` must be in `group`.
//
// kUnavailable: a temporary shape (a pvmove, a merge of a snapshot). kPrecondition: something is stacked on
// the volume; the message names it and the remedy. kUnsupported: the shape is not recognized. The messages
// call the volume "it"; the caller adds the name.
Result<std::vector<PhysicalRange>> OwnedExtents(const VolumeGroup& group, const LogicalVolume& lv);

// OK as for OwnedExtents, also while stores of copies (verbs/cow.h) are bound to `lv`. For changes of its
// legs, which a store does not notice.
Status IsAloneButForStores(const VolumeGroup& group, const LogicalVolume& lv);

// OK if removing `lv` removes no other volume. `lv` may be unfinished. Fails if `lv` has a snapshot or clone,
// is a pool or cached, if anything is built on it or a leg, or if it is being moved. Errors as above, except
// that an unrecognized shape is not an error.
Status RemovesAlone(const VolumeGroup& group, const LogicalVolume& lv);

// --- Thin stores: thin pools of Quarry's, with thin volumes in them.

// The hidden volumes of a thin pool; nullopt: not a thin pool, or not of the usual form.
struct PoolParts {
  const LogicalVolume* data = nullptr;
  const LogicalVolume* metadata = nullptr;
};
std::optional<PoolParts> PartsOfPool(const VolumeGroup& group, const LogicalVolume& lv);
// The thin pool that has this hidden volume as its data or metadata; nullptr: there is none.
const LogicalVolume* PoolOfPart(const VolumeGroup& group, const LogicalVolume& part);

// OK as for OwnedExtents, for data or metadata of a thin pool: nothing but the pool stands on it.
Status IsAlonePart(const VolumeGroup& group, const LogicalVolume& part);
// OK if both parts of the pool are so. Whatever volumes are in it, it may be started, repaired, and used.
Status IsSoundStore(const VolumeGroup& group, const LogicalVolume& pool);

// OK if `lv` is a thin volume by itself: of one segment, with a device in the pool that no other volume has,
// made of nothing, with no snapshot, and nothing built on it. Its bytes are in the pool, so it has no
// extents. Errors as for OwnedExtents.
Status IsAloneInPool(const VolumeGroup& group, const LogicalVolume& lv);

// Whether this thin pool is what a killed quarryd left of making one: it has a Quarry name, no volumes, no
// Quarry tag but the marker, and its metadata has the marker. RemovesAlone is OK for it.
bool IsHalfMadeStore(const VolumeGroup& group, const LogicalVolume& lv);

// Whether this is LVM's hidden volume of a pvmove. Extents on it are on two disks at once.
bool IsPvmove(const LogicalVolume& lv);

}  // namespace quarry::lvm
