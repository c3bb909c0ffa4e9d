// The unmanaged logical volumes of a pool's group. Callers see them if the pool's setting permits it. Quarry
// never changes them; only adoption makes one managed. Pure.
#pragma once

#include <vector>

#include "engine/model/catalog.h"
#include "engine/model/volume.h"

namespace quarry::engine {

// Whether the LV is unmanaged and stands alone: not a leg, pool, origin or snapshot, and without any Quarry
// tag.
bool IsForeign(const lvm::LogicalVolume& lv);

// An unmanaged LV as a record: of its tags only an id and its actual size are set. `id` is empty if the
// LV's uuid cannot be part of an id.
Record ForeignRecord(const std::string& pool, const Catalog& catalog, const lvm::LogicalVolume& lv);

// The unmanaged LVs that have an id, as ListVolumes shows them. Apart from the health, the result is the same
// as that of Describe() after adoption, so a CO sees the same volume before and after.
std::vector<Volume> ForeignVolumes(const std::string& pool, const Catalog& catalog);
Volume DescribeForeign(const Record& record);

// kPrecondition: the answer to a CO that tries to use an unmanaged LV.
Error NotAdopted(const Record& record);

}  // namespace quarry::engine
