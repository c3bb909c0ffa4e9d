// What happens to the legs that model/taken_out.h finds. Pure.
#pragma once

#include <optional>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// Retags the leg's parts as deleted volumes, so that they are erased like their volume. One commit each. The
// leg comes first, because its metadata LV is the proof that the leg is Quarry's.
Plan PlanEndOf(const Catalog& catalog, const TakenOut& taken);

// Whether the volume has all data of the leg without the leg: the kernel reports every other leg as present
// and in sync.
bool IsDispensable(const Record& volume, const std::optional<dm::RaidStatus>& raid);

}  // namespace quarry::engine
