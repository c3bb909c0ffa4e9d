// How the pools' disks are by their own word, and what follows from it: what gets no new data, and what is
// said of the volumes that lie there.
//
// Failing: the disk says that its spare blocks run out, that it is not reliable any more, or that it takes no
// more writes. Worn: it has had the whole life that its vendor expects of it (100 % used), and may go on for
// long. What it says of its temperature concerns neither. Failing is also, of any kind of disk, one on which
// legs fail again each time that they are taken back.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/types.h"
#include "lvm/layout.h"
#include "udev/disk_health.h"

namespace quarry::engine {

enum class DiskState { kGood, kWorn, kFailing };
std::string_view DiskStateName(DiskState state);  // "good", "worn", "failing"

struct DiskVerdict {
  DiskState state = DiskState::kGood;
  std::string words;  // why; empty if it is good
};
// Pure.
DiskVerdict JudgeHealth(const udev::DiskHealth& health);

// PVs of the group that get nothing new: those that fail, and those that are worn as long as a present disk
// of the group is neither. Pure.
std::set<std::string> Excluded(const lvm::VolumeGroup& group, const UnhealthyDisks& weak);
// `space` less what lies on these PVs. Pure.
lvm::FreeSpace Without(lvm::FreeSpace space, const std::set<std::string>& pvs);
// An error of placing in a pool, with a word on the disks that were left out. Pure.
Error ReportExcluded(Error error, const Catalog& catalog);
// What `place` makes of the group's free room: not onto a disk that fails, and onto a worn one only if no
// other will do, for there it is better than nowhere. Pure if `place` is.
template <typename Place>
auto PlaceOnSoundDisks(const lvm::VolumeGroup& group, const UnhealthyDisks& weak, Place place) {
  const lvm::FreeSpace all = lvm::FreeSpaceOf(group);
  auto placed = place(Without(all, Excluded(group, weak)));
  if (!placed.has_value() && placed.error().code() == Code::kNoSpace && !weak.worn.empty()) {
    placed = place(Without(all, Excluded(group, {weak.failing, {}, {}})));
  }
  return placed;
}
// lvm::PlaceLegs like that. Pure.
Result<lvm::LegReplacement> PlaceRebuiltLegs(const lvm::VolumeGroup& group, const UnhealthyDisks& weak,
                                             const lvm::Geometry& geometry, const lvm::LogicalVolume& lv,
                                             const std::vector<bool>& which);
// What is to be said of a volume with a part on failing disks; nullopt if it has none. Pure.
std::optional<Ailment> DiskFailing(const Record& record, const UnhealthyDisks& weak);

}  // namespace quarry::engine
