// Plans for making, growing and ending volumes: (what is, what is wanted) → actions. Pure, tested by golden
// files.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

struct CreatePlan {
  Plan actions;
  Volume volume;  // as it will be
};

struct CreateWish {
  std::string name;  // the CO's
  Profile profile;
  AccessPlan access;
  Extents size;
  std::string lv_name;  // fresh
  bool ephemeral = false;
  std::string node_hash = {};  // for its id; empty: the id does not name the node
  bool elsewhere = false;      // CreateRequest::elsewhere
};

// The marker goes on with the creating command and comes off, in one commit with all the other tags, when the
// volume is whole and proven: a crash before that leaves something that the next start removes. Errors of
// lvm::Place; kNoSpace naming the setting if inline volumes have what the pool gives them.
// `within`: the only room it may use; nullptr for all that is free.
Result<CreatePlan> PlanCreate(const Catalog& catalog, const CreateWish& wish, const PoolConfig& pool,
                              const lvm::FreeSpace* within = nullptr);

// Grows to `size` extents. The size tag is written last: until then the volume is reported as it was.
Result<Plan> PlanExpand(const Catalog& catalog, const Record& record, const Profile& profile, Extents size,
                        const PoolConfig& pool, const lvm::FreeSpace* within = nullptr);

// What is to be done to a volume's bytes, as its tag says; whatever else that says, kZero.
ErasePolicy PolicyOf(const Record& record);

// Deactivates if the kernel has it (which fails if somebody has it open), then retags; or removes, which does
// both. With an erase policy the volume is out of reach from here on, and the eraser does the rest.
Plan PlanDelete(const Record& record, ErasePolicy policy);

// Clears every extent of a volume on its disks. kUnavailable if one of the disks is missing; the errors of
// OwnedExtents (lvm/ownership.h) if they are not the volume's alone.
Result<Plan> PlanErase(const Record& record, ErasePolicy policy, const std::set<std::string>& given_up = {});
// Whether no device of this PV is there. (One that is back counts as missing until LVM is told.)
bool IsAway(const lvm::VolumeGroup& group, const std::string& pv_uuid);
// `ranges` without those on disks that are away and among `given_up` (PV uuids): nobody can erase these.
std::vector<lvm::PhysicalRange> WithoutLost(const lvm::VolumeGroup& group,
                                            std::vector<lvm::PhysicalRange> ranges,
                                            const std::set<std::string>& given_up);
// The same for extents of the group, whosever they are. Pieces of at most 1 GiB.
Result<Plan> PlanEraseRanges(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& ranges,
                             dm::EraseMethod method);

}  // namespace quarry::engine
