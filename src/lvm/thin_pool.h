// What a snapshot says about the parts of a thin pool. Pure.
#pragma once

#include <string_view>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// The proof that ActivateDegradedThin (verbs/thin.h) needs: OK if data and metadata of the pool each have all
// their extents, or are RAID with legs enough. `pool` must be in `group`. kUnavailable: a part cannot do
// without a missing disk; the message continues after the pool's name. kUnsupported: not a thin pool, or a
// part of an unrecognized type.
//
// Whether the remaining legs are up to date, only the kernel knows (dm).
Status MayStartDegraded(const VolumeGroup& group, const LogicalVolume& pool);

// Why LVM refused to start a thin pool, as its message says.
enum class PoolRefusal {
  kOther,
  kDamaged,   // thin_check has found damage in the metadata
  kMismatch,  // the pool's transaction id is not the one in LVM's text
};
PoolRefusal RefusalIn(std::string_view message);

}  // namespace quarry::lvm
