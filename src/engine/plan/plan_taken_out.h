// What becomes of the legs that model/taken_out.h finds. Pure.
#pragma once

#include <optional>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// Tags that make deleted volumes of its parts, which are erased as their volume is. One commit each; the leg
// itself comes first, since its metadata is what proves it.
Plan PlanEndOf(const Catalog& catalog, const TakenOut& taken);

// Whether the volume has all that is on the leg without it: each of its other legs is there and in sync, by
// the kernel's word.
bool IsDispensable(const Record& volume, const std::optional<dm::RaidStatus>& raid);

}  // namespace quarry::engine
