// Takes the wish that a disk leaves its group: checked and written down here, done by the repair loop.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/model/types.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Disks::Evacuate (engine/disks.h).
Result<EvacuateResult> WantEvacuation(Node& node, const EvacuateRequest& request, const Call& call);

}  // namespace quarry::engine
