// How healthy the pools' disks are, and what follows: which disks get no new data, and what the volumes on
// them report.
//
// A disk is failing if it reports that its spare blocks run out, that it is not reliable any more, or that it
// takes no more writes. A disk of any kind is also failing if its legs fail again each time they are taken
// back. A disk is worn if it has used up the life that its vendor expects (100 % used); it may go on working
// for long. Temperature warnings count for neither.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/volume.h"
#include "lvm/layout.h"
#include "udev/disk_health.h"

namespace quarry::engine {

enum class DiskState { kGood, kWorn, kFailing };
std::string_view DiskStateName(DiskState state);  // "good", "worn", "failing"

struct DiskVerdict {
  DiskState state = DiskState::kGood;
  std::string words;  // why; empty if the disk is good
};
// Pure.
DiskVerdict JudgeHealth(const udev::DiskHealth& health);

// Whether an administrator wants this disk evacuated or replaced.
bool IsEvacuating(const lvm::PhysicalVolume& pv);

// PVs of the group that get nothing new: failing PVs always, worn PVs while the group has a present disk that
// is neither failing nor worn. Pure.
std::set<std::string> Excluded(const lvm::VolumeGroup& group, const UnhealthyDisks& weak);
// `space` without the free space of these PVs. Pure.
lvm::FreeSpace Without(lvm::FreeSpace space, const std::set<std::string>& pvs);
// A placement error, extended by the disks that were excluded. Pure.
Error ReportExcluded(Error error, const Catalog& catalog);
// Calls `place` with the group's free space on healthy disks. If that gives kNoSpace, worn disks are added,
// because a leg on a worn disk is better than no leg. Failing disks are never used. Pure if `place` is.
template <typename Place>
auto PlaceOnSoundDisks(const lvm::VolumeGroup& group, const UnhealthyDisks& weak, Place place) {
  const lvm::FreeSpace all = lvm::FreeSpaceOf(group);
  auto placed = place(Without(all, Excluded(group, weak)));
  if (!placed.has_value() && placed.error().code() == Code::kNoSpace && !weak.worn.empty()) {
    placed = place(Without(all, Excluded(group, {weak.failing, {}, {}})));
  }
  return placed;
}
// lvm::PlaceLegs by the rules of PlaceOnSoundDisks. Pure.
Result<lvm::LegReplacement> PlaceRebuiltLegs(const lvm::VolumeGroup& group, const UnhealthyDisks& weak,
                                             const lvm::Geometry& geometry, const lvm::LogicalVolume& lv,
                                             const std::vector<bool>& which);
// The ailment of a volume with a part on failing disks; nullopt if it has no such part. Pure.
std::optional<Ailment> DiskFailing(const Record& record, const UnhealthyDisks& weak);

}  // namespace quarry::engine
