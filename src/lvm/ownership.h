// Whose extents are whose: the proof that is asked for before a byte below a volume is written, or the volume
// removed. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Every physical extent of `lv` and of its legs, proven from this snapshot to belong to this volume alone:
// known segment types, legs of its own on PVs, nothing built on top of it or of a leg, nothing moving, no
// extent that another LV names. Legs that were given up for lost have none. `lv` must be in `group`.
//
// kUnavailable: a shape that ends by itself (a pvmove, a merge of a snapshot); kPrecondition: somebody put
// something on it, which the message names with the remedy; kUnsupported: a shape that is not recognised. The
// messages call the volume "it": naming it is the caller's.
Result<std::vector<PhysicalRange>> OwnedExtents(const VolumeGroup& group, const LogicalVolume& lv);

// Whether removing `lv`, be it half made, takes nothing along that is not part of it: no snapshot, clone,
// pool or cache, nothing that is made of it or of a leg. Errors as above, but a shape that is not recognised
// is none.
Status RemovesAlone(const VolumeGroup& group, const LogicalVolume& lv);

// Whether this is LVM's own hidden volume of a pvmove: what lies on it is on two disks at once.
bool IsPvmove(const LogicalVolume& lv);

}  // namespace quarry::lvm
