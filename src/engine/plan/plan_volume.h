// Plans for making, growing and deleting volumes: from the present and the wanted state to actions. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/volume.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

struct CreatePlan {
  Plan actions;
  Volume volume;  // as the caller will see it
};

struct CreateWish {
  std::string name;  // the CO's
  Profile profile;
  AccessPlan access;
  Extents size;
  std::string lv_name;  // new
  bool ephemeral = false;
  std::string node_hash = {};  // part of its id; empty: the id does not name the node
  bool elsewhere = false;      // CreateRequest::elsewhere
  std::string s3 = {};         // CreateRequest::s3
  Bytes asked = {};            // the size that the caller asked for; 0: none
  ContentSource source = {};   // what it becomes a copy of
  // The new LV becomes a snapshot of the volume `source`.
  struct Cut {
    uint64_t time = 0;  // nanoseconds since 1970
    Bytes length;       // bytes of the volume
  };
  std::optional<Cut> cut = {};
  std::string formatted = {};  // the file system that the copy brings along (VolumeTags::formatted)
  Bytes least = {};            // smallest size that holds the copy
};

// The tags of a volume or snapshot of `size` bytes that is as `wish` says, when it is ready.
lvm::VolumeTags ReadyTags(const CreateWish& wish, Bytes size);

// Without CommitOnce the creating command sets the marker. When the volume is complete and verified, one
// commit removes the marker and sets all other tags. After a crash before that commit, the next start removes
// the LV. Errors of lvm::Place; kNoSpace naming the setting if inline volumes have used up their part of the
// pool. `within`: the only space that the volume may use; nullptr: all free space.
Result<CreatePlan> PlanCreate(const Catalog& catalog, const CreateWish& wish, const PoolConfig& pool,
                              const lvm::FreeSpace* within = nullptr);

// Changes the plan of a create so that its first commit makes the ready volume, without marker and wiping.
// Only for a plan whose extents are all known to be zero, as of the plan's group with the number `seqno`. LVM
// runs only if the group still has this number. So nobody owned the extents in between, and a crash at any
// moment leaves no volume or a ready one. False: the plan is unchanged, because LVM needs several commands
// for it, or does not create its type under a caller's lock (lvm::CanCreateUnderLock).
bool CommitOnce(Plan& plan, uint64_t seqno);

// Changes the plan of a create so that it ends before the volume holds its bytes: the LV is active, and it
// carries all tags of the volume, with the state of a deleted one and VolumeTags::copying. So no caller sees
// it, and if quarryd is killed, the next one goes on with it or erases it. Returns the rest of the plan,
// which makes it a volume.
Plan StopBeforeReady(Plan& plan, const std::string& copying);

// The same rest for a copy that an earlier process left unfinished. kPrecondition: the copy does not have the
// layout of its profile any more.
Result<Plan> PlanRestOf(const Record& copy);

// kPrecondition if a volume that one commit may have made (CommitOnce) does not have the legs of its profile,
// each on a disk of its own; the message tells how to inspect it. Nothing else checks it if quarryd was
// killed before it compared the layout with its plan. OK for a volume that was grown or formatted since, or
// that another command has given another form.
Status CheckLayout(const Record& record, const Profile& profile);

// Grows to `size` extents, because the caller asked for `asked`. The size tag is written last; until then the
// volume has its old size for callers.
Result<Plan> PlanExpand(const Catalog& catalog, const Record& record, const Profile& profile, Extents size,
                        Bytes asked, const PoolConfig& pool, const lvm::FreeSpace* within = nullptr);

// The erase policy in the volume's tag. An unknown value counts as kZero.
ErasePolicy PolicyOf(const Record& record);

// Deactivates the volume if it is active, which fails if it is open, and then retags it. With
// ErasePolicy::kNone the volume is removed instead, which also deactivates it. After the retag the volume is
// out of reach, and the eraser does the rest.
Plan PlanDelete(const Record& record, ErasePolicy policy);

// Gives the parts of a leg that a conversion took out (model/taken_out.h) the tags of deleted volumes, so
// that they are erased like the leg's volume. Each part takes one commit. The leg comes first, because its
// metadata LV is the proof that the leg is Quarry's.
Plan PlanEndOf(const Catalog& catalog, const TakenOut& taken);

// Erases every extent of a volume on its disks, except those on disks that are away and in `given_up`.
// kUnavailable if another of the disks is missing; the errors of OwnedExtents (lvm/ownership.h) if the
// extents are not the volume's alone.
Result<Plan> PlanErase(const Record& record, ErasePolicy policy, const std::set<std::string>& given_up = {});
// Whether this PV is away: it has no device. A PV whose disk has returned is not away, although LVM counts it
// as missing until it is taken back.
bool IsAway(const lvm::VolumeGroup& group, const std::string& pv_uuid);
// `ranges` without the ranges on disks that are away and in `given_up` (PV uuids). Those ranges cannot be
// erased.
std::vector<lvm::PhysicalRange> WithoutLost(const lvm::VolumeGroup& group,
                                            std::vector<lvm::PhysicalRange> ranges,
                                            const std::set<std::string>& given_up);
// PlanErase for any extents of the group, whatever volume they belong to. Pieces have at most 1 GiB.
Result<Plan> PlanEraseRanges(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& ranges,
                             dm::EraseMethod method);

}  // namespace quarry::engine
