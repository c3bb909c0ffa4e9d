// Zeroes the extents of a plan that creates or grows a volume before the plan is executed, so that they show
// no old bytes. The callers of TakeZeroed and StartZeroing have the pool's turn. SweepZeroings runs on the
// eraser's thread and takes the turn itself. ZeroingPatience is used after the turn.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/erase/eraser.h"
#include "engine/erase/failure_log.h"
#include "engine/erase/zeroing.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Whether a tenant could read old bytes in the extents of such a volume. That is the case for raw devices,
// unless the volume has `erase=none`; a file system never shows bytes that were not written through it. A
// RAID volume that skips its first sync needs zeroed extents too, or its legs would differ. An unknown access
// counts as raw.
bool MustBeZeroed(const Profile& profile, std::optional<Access> access);

// The result of a zeroing that an earlier call for the same volume began.
struct Zeroed {
  std::shared_ptr<Zeroing> under_way;    // not finished: nothing else is set
  std::vector<lvm::PhysicalRange> held;  // zeroed extents, free again, meant for this volume
};
// Looks for the zeroing of `key`. If it is finished, gives its extents back to the group. Returns the error
// of a failed zeroing; the next call then begins a new one.
Result<Zeroed> TakeZeroed(Node& node, Pool& pool, Eraser& eraser, const LockKey& key, const Call& call);

// Creates a logical volume that holds the extents of `plan`, and begins to zero those in `unknown`. Does not
// wait for the zeroing.
Result<std::shared_ptr<Zeroing>> StartZeroing(Node& node, Pool& pool, Eraser& eraser, const LockKey& key,
                                              const Catalog& catalog, const Plan& plan,
                                              const std::vector<lvm::PhysicalRange>& unknown,
                                              const Call& call);

// Gives back zeroed extents for which no caller has come back for some minutes, and those of volumes that are
// gone. True if there were zeroings when it began. The eraser's thread calls it, without the turn. `group`:
// as the round has read it. `failures`: takes each outcome by the name of the LV that holds the extents.
bool SweepZeroings(Pool& pool, Zeroings& zeroings, const lvm::VolumeGroup& group, const World& world,
                   FailureLog& failures, const Call& call);

// How long a call waits for a zeroing: shorter than the patience of orchestrators, which may repeat the call.
Call ZeroingPatience(const Call& call);

}  // namespace quarry::engine
