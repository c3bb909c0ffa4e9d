// Legs that an LVM conversion took out of managed RAID volumes and did not remove, because LVM was killed.
// They stay while they may be the last good copy of their data. After that they end as a deleted volume does:
// tagged, erased, removed. Pure.
#pragma once

#include <optional>

#include "base/result.h"
#include "engine/model/catalog.h"

namespace quarry::engine {

// Whether `lv` was such a leg and is being erased. It is then treated as a deleted volume.
bool IsEndedLeg(const lvm::LogicalVolume& lv, const Result<std::optional<lvm::VolumeTags>>& tags);

// Fills in `taken_out` and `unproven_legs` from the group and the records. A leg counts as taken out only if
// a managed RAID volume of that name has legs of the same size, and the leg's metadata LV, named after the
// leg, has a Quarry tag.
void FindTakenOut(Catalog& catalog);

// The volume that the leg was part of; its logical volume exists.
const Record* VolumeOf(const Catalog& catalog, const TakenOut& taken);

}  // namespace quarry::engine
