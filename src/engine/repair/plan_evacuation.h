// Plans the evacuation of disks: from a group, to the next step. Pure. The request is a tag of the physical
// volume, so a quarryd that was killed continues after its restart.
//
// Extents are copied elsewhere piece by piece (pvmove). Meanwhile their volumes stay in use and keep their
// redundancy. If the disk is not to be read any more (replace), RAID legs are rebuilt from the other legs
// instead. At the end the disk is removed from its group.
#pragma once

#include <string>

#include "engine/repair/plan_repair.h"

namespace quarry::engine {

// The next step for the first disk that is to be vacated. Adds to `plan` why a disk has no step.
std::optional<RepairStep> PlanEvacuation(const RepairView& view, RepairPlan& plan);

// Whether everything on the disk has space elsewhere. kPrecondition: an unmanaged logical volume lies there,
// or the group has no other disk. kNoSpace: the message says how much space is missing.
Status CanLeave(const Catalog& catalog, const lvm::PhysicalVolume& pv);

// The unfinished move that Quarry began off a PV that is to be vacated; nullopt if there is none.
// kUnavailable: another process began the move, or it moves more than one managed volume. That process has to
// finish it.
Result<std::optional<lvm::ExtentMove>> OwnMoveOff(const Catalog& catalog, const lvm::PhysicalVolume& pv);

// The number of allocated extents of the PV.
Extents UsedOn(const lvm::PhysicalVolume& pv);

// The logical volumes that have extents on a disk.
struct OnDisk {
  std::vector<const Record*> records;
  std::vector<std::string> strangers;  // names of unmanaged logical volumes
  std::vector<std::string> taken_out;  // legs that interrupted conversions left
};
OnDisk WhatLiesOn(const Catalog& catalog, const lvm::PhysicalVolume& pv);

}  // namespace quarry::engine
