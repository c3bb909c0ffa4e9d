// The one gate to the disks below device-mapper: every erase there, and every write of a RAID superblock,
// goes through here, one piece at a time.
//
// Metadata that was read a moment ago proves nothing about the present: an administrator's command may have
// moved or removed the volume, and given its extents to another volume. So for each piece the group is held
// by LVM's own lock, which stops every LVM of this host from committing. Only then is it proven that the
// piece belongs to this volume alone, by the committed metadata and by the kernel's mappings. If anything is
// not recognized, nothing is written.
//
// While the group is held, LVM commands that change it or activate its volumes wait. The hold is a shared
// lock. A command that only reads the group waits only if a command of the first kind waits before it. So
// pieces are small, and no code here waits for a turn, a command or a pause. Only the disk itself can take
// long (DiskQueue::Stuck).
#pragma once

#include <functional>
#include <string>

#include "engine/plan/actions.h"
#include "engine/raid/stopped_array.h"
#include "engine/world.h"

namespace quarry::engine {

inline constexpr Bytes kMostAtOnce{64 * 1024 * 1024};

// The logical volume that must own the extents at the moment of the write.
struct Owner {
  std::string group, group_uuid;
  std::string lv_name, lv_uuid;
  std::string tag;  // the LV must have this tag
};
Owner OwnerOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, std::string tag);

// Erases a piece of at most kMostAtOnce and returns the method: a disk that cannot discard gets zeroes.
// `begins` is called when everything is proven. kTimeout: the proof is not possible now, because another
// process has the group or a disk is slow; try this piece again. kUnavailable: the plan is outdated (the
// volume was moved, removed or activated); plan again. kPrecondition and kUnsupported: an administrator must
// act. After an error nothing was written, unless the disk itself failed during the write.
//
// A piece of a thin volume has its offset in the volume, and no disk. It is zeroed through the volume's own
// device, which must be active and which nobody else may have open, and is then given back to the pool. So no
// byte of another volume can be touched, whatever has changed below.
Result<dm::EraseMethod> ClearOwned(const World& world, const Owner& owner, const EraseAction& piece,
                                   const Call& call, const std::function<void()>& begins = nullptr);

// The writer for the legs of an inactive managed volume, or of a part of a thin store that is not in the
// kernel.
LegWriter WriterOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                   const Call& call);

// Calls `write`, which writes to `place`: extents of `metadata_lv`, the LV with the superblock of one of the
// owner's RAID legs. Errors as above; kPrecondition also if the owner is active.
Status WriteToLeg(const World& world, const Owner& owner, const std::string& metadata_lv,
                  const dm::EraseRange& place, const Call& call, const std::function<Status()>& write);

}  // namespace quarry::engine
