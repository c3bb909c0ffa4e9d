// Legs that a conversion of LVM's took out of raid volumes of ours and, killed, did not remove. They stay
// until they are of no use to anybody; then they are ended as a deleted volume is: tagged, erased, removed.
// Pure.
#pragma once

#include <optional>

#include "base/result.h"
#include "engine/model/catalog.h"

namespace quarry::engine {

// Whether it was such a leg and is being erased: then it is like a volume that was deleted.
bool IsEndedLeg(const lvm::LogicalVolume& lv, const Result<std::optional<lvm::VolumeTags>>& tags);

// Fills in `taken_out` and `unproven_legs`, from the group and the records. A leg is ours only if a raid
// volume of ours of that name has legs of that size, and the leg's metadata, named after it, bears a tag of
// ours.
void FindTakenOut(Catalog& catalog);

// The volume that it was a leg of, whose logical volume there is.
const Record* VolumeOf(const Catalog& catalog, const TakenOut& taken);

}  // namespace quarry::engine
