// Makes mounted file systems report their free blocks to their disks (fstrim).
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/model/upkeep_requests.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Upkeep::Trim (engine/upkeep.h).
Result<TrimResult> TrimAll(Node& node, const Call& call);

}  // namespace quarry::engine
