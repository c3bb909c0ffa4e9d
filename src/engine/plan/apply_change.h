// Applies LVM's changes to volumes and thin stores of which a killed command may have left something.
// Commit() in actions.h uses it.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/plan/actions.h"
#include "engine/world.h"
#include "lvm/change.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Applies `change`. If it makes the kernel load or use tables of a volume:
//
// - Only if no leg would come into use that may be older than the others (stopped_array.h); otherwise the
//   errors of MayTakeBack. A verb for several volumes is applied to the others, and the error comes
//   afterwards.
// - What a killed command left is put right before (PutRight); a verb for several volumes only drops tables
//   that wait.
// - If LVM fails or is killed, the volume is not left suspended, and keeps no table of the change: within
//   20 seconds, and as far as the disks permit.
Status ApplyChange(const lvm::Change& change, const World& world, const Call& call);

// What ActivateAction does. A volume that is suspended gets the tables of the committed metadata. Each volume
// is activated if possible, and the error of another comes afterwards.
Status ActivateVolumes(const ActivateAction& a, const World& world, const Call& call);

// Puts right what a killed command left of `lv`, or of the thin store `lv`, before LVM's next command makes
// use of it (left_suspended.h): waiting tables are dropped, a store is resumed, and all devices get the
// tables of LVM's text, unless disks are missing, without which LVM loads none. OK if nothing was left, which
// takes a few looks at the devices. Errors as for PrepareReload.
Status PutRight(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                const Call& call);

}  // namespace quarry::engine
