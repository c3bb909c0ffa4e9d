// Volumes and thin stores that a killed command of LVM left suspended, or with tables that wait.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/world.h"
#include "lvm/lvm_api.h"
#include "lvm/ownership.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Makes ready for LVM's next command on `lv`, which reloads tables or resumes, what a killed command left of
// it and, for a thin pool or a volume in one, of the pool. LVM does not load a table where one waits already:
// its resume would put into use the one that waits, of whatever size and with whatever legs. And it grows a
// volume from the bottom, so after a growth that did not commit, legs are live with a size that LVM's next
// command takes from them.
//
// - Tables that wait are dropped, so none that was not committed is ever used; but not below a pvmove that
//   was committed: it has tables of its own, which LVM uses together with these.
// - Legs are resumed before that with the tables that they have. Dropping a table of a RAID device writes to
//   them, and loading one reads from them: LVM would wait for itself, with the group's lock.
// - A RAID device below a suspended pool that has the size of a growth that did not commit is suspended: it
//   may be at the sync of that. Activation would take the extents from its legs first, and the array would
//   fail each leg on which the sync meets the end. Activation resumes it. A table that waits for a thin
//   volume stays then: to load another, the kernel reads the pool's metadata.
//
// Nothing is done while a command changes the group: it may be its own work. (A hand-run `lvchange --refresh`
// changes nothing for LVM. It loses at most its own tables, and with that its effect.) Waits for the command,
// within limits, and for disks. False: nothing was left. True: something was, and LVM can go on; a refresh,
// or an activation of what is suspended and a refresh, gives all devices the tables of LVM's text. Otherwise
// LVM must not run: kUnavailable, also if a disk of the group is silent; kPrecondition: another command has
// put the larger tables of a pool into use, which cannot shrink; errors of LvmApi::Hold and DmApi.
Result<bool> PrepareReload(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                           const Call& call);

// LvmApi::Hold for 30 seconds at most: no command of LVM is between its text and its messages to the kernel
// then. kUnavailable instead of kTimeout: a command may be at work all the time. Errors of GroupLocks::Check.
Result<lvm::HeldGroup> HoldGroup(const std::string& group, const World& world, const Call& call);

// The pool that `lv` is in or that it is, and its parts. nullopt: it is neither in a thin pool nor one.
struct PoolBelow {
  const lvm::LogicalVolume* pool;
  lvm::PoolParts parts;
};
std::optional<PoolBelow> PoolOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);

// Device-mapper UUIDs of the devices of a thin pool above its parts, from the top.
std::vector<std::string> DmUuidsAboveParts(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool);

}  // namespace quarry::engine
