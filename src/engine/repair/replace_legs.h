// Plans the replacement of RAID legs: new legs on other disks, rebuilt from the remaining legs. Pure. The
// callers decide whether a volume may be changed now, and report obstacles in their own words.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "engine/repair/plan_repair.h"

namespace quarry::engine {

struct LegsToReplace {
  std::vector<bool> which;                  // one entry for each leg: lvm::LegsOn for a PV, or lvm::LostLegs
  const lvm::PhysicalVolume* on = nullptr;  // the present PV with these legs; nullptr: they are lost
  UnhealthyDisks avoid;                     // disks that get no new leg (PlaceRebuiltLegs)
  bool activate = false;                    // whether the volume must be activated first
  RepairKind kind = RepairKind::kRepair;
};

// Why legs cannot be replaced now. Both reasons may hold.
struct LegsKept {
  bool needed = false;   // the remaining legs do not hold all data
  std::string no_place;  // why there is no place for the new legs; empty: there is one
};

// A leg is replaced only if the volume survives without it and without all legs that are useless now.
std::expected<RepairStep, LegsKept> ReplaceLegs(const RepairView& view, const VolumeView& volume,
                                                const lvm::Geometry& geometry, const LegsToReplace& legs);

}  // namespace quarry::engine
