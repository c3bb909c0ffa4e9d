// Polls the health of the pools' disks.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/disks/inventory.h"

namespace quarry::engine {

// Disks::PollDisks (engine/disks.h).
Result<bool> PollDisks(NodeDisks& node_disks, const Call& call);

}  // namespace quarry::engine
