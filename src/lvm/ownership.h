// Which extents belong to which volume. This proof is required before a byte below a volume is written, and
// before a volume is removed. Pure.
#pragma once

#include <vector>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Every physical extent of `lv` and its legs, proven from this snapshot to belong to this volume alone. That
// means: known segment types, legs of its own on PVs, nothing stacked on the volume or a leg, nothing moving,
// no extent that another LV names. Legs that LVM gave up as lost have no extents. `lv` must be in `group`.
//
// kUnavailable: a temporary shape (a pvmove, a merge of a snapshot). kPrecondition: something is stacked on
// the volume; the message names it and the remedy. kUnsupported: the shape is not recognized. The messages
// call the volume "it"; the caller adds the name.
Result<std::vector<PhysicalRange>> OwnedExtents(const VolumeGroup& group, const LogicalVolume& lv);

// OK if removing `lv`, complete or half made, removes nothing else: no snapshot, clone, pool or cache,
// nothing built on `lv` or on a leg. Errors as above, except that an unrecognized shape is not an error.
Status RemovesAlone(const VolumeGroup& group, const LogicalVolume& lv);

// Whether this is LVM's hidden volume of a pvmove. Extents on it are on two disks at once.
bool IsPvmove(const LogicalVolume& lv);

}  // namespace quarry::lvm
