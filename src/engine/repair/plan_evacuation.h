// What is to be done about a disk that somebody wants out of its group: (a group as it is) → the next step.
// Pure. The wish is a tag of the physical volume, so that whoever is killed in between goes on with it.
//
// Extents are copied elsewhere piece by piece (pvmove), while their volumes are in use and as safe as ever.
// Where the disk is not to be read any more, raid legs are made anew from the other legs instead. Then the
// group is reduced.
#pragma once

#include <string>

#include "engine/repair/plan_repair.h"

namespace quarry::engine {

// Whether somebody wants it out of the group.
bool IsEvacuating(const lvm::PhysicalVolume& pv);

// Adds the next step for the first such disk to `plan`, or why there is none.
void PlanEvacuation(const RepairView& view, RepairPlan& plan);

// Whether all of it has room elsewhere. kPrecondition: something lies there that is not ours, or there is no
// other disk. kNoSpace, saying by how much.
Status CanLeave(const Catalog& catalog, const lvm::PhysicalVolume& pv);

// What of a move is needed to go on with it.
struct BegunMove {
  const Record* record = nullptr;  // whose extents they are
  std::vector<lvm::ExtentRange> from;
  std::string to_uuid;  // of the PV that they go to
  std::vector<lvm::ExtentRange> to;
};
// The move of ours off a PV that is to leave: begun, and not ended. nullopt: there is none. kUnavailable:
// there is one that is somebody else's, or moves more than one volume of ours; it is his to end.
Result<std::optional<BegunMove>> OwnMoveOff(const Catalog& catalog, const lvm::PhysicalVolume& pv);

// Extents of it that something lies on.
Extents UsedOn(const lvm::PhysicalVolume& pv);

// What our volumes have there.
struct OnDisk {
  std::vector<const Record*> records;
  std::vector<std::string> strangers;  // logical volumes that are not ours
  std::vector<std::string> taken_out;  // what cut-off conversions left of ours; it goes by itself
};
OnDisk WhatLiesOn(const Catalog& catalog, const lvm::PhysicalVolume& pv);

}  // namespace quarry::engine
