// The one gate to the disks below device-mapper: nothing is cleared there and no raid superblock is written
// but through here, a piece at a time.
//
// Metadata that was read a moment ago says nothing about now: an administrator's command may have moved or
// removed the volume, and given its extents to somebody else. So for each piece the group is held by LVM's
// own lock, which keeps every LVM of this host from committing, and only then it is proven that the piece is
// this volume's alone, by what is committed and by what the kernel maps. What is not recognised is not
// written.
//
// While the group is held every LVM command waits. So pieces are small, and nothing waits for a turn, a
// command or a pause in here. What can last is the disk itself (DiskQueue::Stuck).
#pragma once

#include <functional>
#include <string>

#include "engine/plan/actions.h"
#include "engine/world.h"

namespace quarry::engine {

inline constexpr Bytes kMostAtOnce{64 * 1024 * 1024};

// The logical volume whose extents they must be at that very moment.
struct Owner {
  std::string group, group_uuid;
  std::string lv_name, lv_uuid;
  std::string tag;  // that it must bear
};
Owner OwnerOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, std::string tag);

// Clears a piece of at most kMostAtOnce, and says how: a disk that cannot discard gets zeroes. `begins` is
// called once all is proven. kTimeout: it could not be looked at now, as somebody has the group or a disk is
// slow: try this piece again. kUnavailable: it is not as it was planned (moved, removed, active): plan anew.
// kPrecondition and kUnsupported: somebody has to see to it. In each case nothing was written, but for what
// the disk itself failed to do.
Result<dm::EraseMethod> ClearOwned(const World& world, const Owner& owner, const EraseAction& piece,
                                   const Call& call, const std::function<void()>& begins = nullptr);

// Has `write` write to `place`, extents of `metadata_lv`, which holds the superblock of a raid leg of the
// owner. Errors as above; kPrecondition also if the owner is active.
Status WriteToLeg(const World& world, const Owner& owner, const std::string& metadata_lv,
                  const dm::EraseRange& place, const Call& call, const std::function<Status()>& write);

}  // namespace quarry::engine
