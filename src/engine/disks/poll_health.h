// Asks the pools' disks how they are.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/disks/inventory.h"

namespace quarry::engine {

// Disks::AskDisks (engine/disks.h).
Result<bool> AskDisks(NodeDisks& node_disks, const Call& call);

}  // namespace quarry::engine
