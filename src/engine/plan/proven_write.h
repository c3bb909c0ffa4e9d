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

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/actions.h"
#include "engine/raid/stopped_array.h"
#include "engine/world.h"
#include "thin/pool_reader_api.h"

namespace quarry::engine {

inline constexpr Bytes kMostAtOnce{64 * 1024 * 1024};

// The logical volume that must own the extents at the moment of the write.
struct Owner {
  std::string group, group_uuid;
  std::string lv_name, lv_uuid;
  std::string tag;  // the LV must have this tag
  // Of a thin volume whose pieces lie on the data device of its store, where no other device of the pool has
  // them: its id in the pool, and DmApi::Instance of its own device, which the caller keeps open exclusively
  // and read-only from before that was found out. nullopt: pieces lie in the volume itself.
  struct InStore {
    uint32_t device_id;
    uint64_t instance;
    // The highest id in the pool that LVM knew then. A device that another program makes later may be a
    // snapshot of this one, or of such a snapshot.
    uint32_t highest_id;
    // What it has alone. Pieces count the bytes of these, as if they followed each other.
    std::shared_ptr<const std::vector<thin::ByteRange>> ranges;
  };
  std::optional<InStore> in_store = {};
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
// byte of another volume can be touched, whatever has changed below. If Owner::in_store is set, the piece is
// a part of its ranges, and is zeroed on the data device of the store. That they are the owner's alone was
// seen in a metadata snapshot. It is proven here that this still holds: the owner has the same device of the
// pool, which was open and read-only ever since, so it has neither gained nor lost a chunk; and since then
// nobody but quarryd has made a device in the pool, so nobody a snapshot of it.
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
