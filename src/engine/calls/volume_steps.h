// Steps that several calls take. The callers hold the volume's locks and a pass of the gate.
#pragma once

#include <string>

#include "engine/calls/parts.h"
#include "engine/model/config.h"
#include "engine/plan/plan_volume.h"
#include "engine/volumes.h"

namespace quarry::engine {

// Makes the volume that `wish` describes. Chooses its size and lv_name. The volume must be known not to
// exist. Waits for the group's turn and for space that must be zeroed first. `what` names the call, for
// callers that wait behind it. (provision.cc)
Result<Volume> MakeNewVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                             const std::string& what, const Call& call);

// The largest volume that a pool can make now, and the reason if there is none. `least_size`: the smallest
// size that is useful to the caller. (controller.cc)
CapacityResult CapacityIn(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry,
                          Bytes least_size);

// Makes a volume unreachable and has its bytes erased. kPrecondition naming the user of the volume.
// (controller.cc)
Status EndVolume(Parts& parts, const Found& found, const std::string& what, const Call& call);

// Grows the logical volume of the volume. Waits for the group's turn and for space that must be zeroed first.
// (provision.cc)
Result<ExpandResult> GrowTo(Parts& parts, Pool& pool, const std::string& id, const CapacityRange& range,
                            const std::string& what, const Call& call);

// Publishes a file system that was not staged, and formats it if needed. `guard`: the lock of request.id;
// steps that take longer than `call` keep it. (node.cc)
Status PublishUnstaged(Parts& parts, const Found& found, const Stack& stack, const PublishRequest& request,
                       KeyLocks::Guard& guard, const Call& call);

}  // namespace quarry::engine
