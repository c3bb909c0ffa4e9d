// The logical volumes of a pool's group that are not ours. They are shown if the pool says so, and never
// touched: what becomes of one is decided by adoption. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "engine/model/catalog.h"
#include "engine/model/types.h"

namespace quarry::engine {

// Somebody else's, and a volume of its own: no leg, pool, origin or snapshot, and without any tag of ours.
bool IsForeign(const lvm::LogicalVolume& lv);

// One as a record: no tags but an id, and the size that it has. `id` is empty if its uuid makes none.
Record ForeignRecord(const std::string& pool, const Catalog& catalog, const lvm::LogicalVolume& lv);

// Those that have an id, as ListVolumes shows them: what Describe() would say of them once they were adopted,
// so that a CO sees the same volume before and after.
std::vector<Volume> ForeignVolumes(const std::string& pool, const Catalog& catalog);
Volume DescribeForeign(const Record& record);

// kPrecondition: what a CO is told who wants to use one.
Error NotAdopted(const Record& record);

}  // namespace quarry::engine
