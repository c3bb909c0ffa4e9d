// Has mounted file systems tell their disks which blocks are free.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/model/types.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Upkeep::Trim (engine/upkeep.h).
Result<TrimResult> TrimAll(Node& node, const Call& call);

}  // namespace quarry::engine
