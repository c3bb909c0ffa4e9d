// Takes a request to evacuate a disk. The request is checked and recorded in a tag here; the repair loop
// carries it out.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/model/upkeep_requests.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Disks::Evacuate (engine/disks.h).
Result<EvacuateResult> WantEvacuation(Node& node, const EvacuateRequest& request, const Call& call);

}  // namespace quarry::engine
