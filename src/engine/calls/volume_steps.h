// Steps that several calls take. Their callers hold the volume's locks and a pass of the gate.
#pragma once

#include <string>

#include "engine/calls/parts.h"
#include "engine/model/config.h"
#include "engine/plan/plan_volume.h"

namespace quarry::engine {

// Makes the volume that `wish` describes, of which size and lv_name are chosen here, and which is known not
// to exist. Waits for the group's turn and for space that must be cleared before. `what` is the call, for
// those who wait behind it. (controller.cc)
Result<Volume> MakeNewVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                             const std::string& what, const Call& call);

// The largest volume that can be made in a pool now, and why there is none; `least_size`: of what a caller
// has a use for. (controller.cc)
CapacityResult CapacityIn(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry,
                          Bytes least_size);

// Puts a volume out of reach and has its bytes erased. kPrecondition naming who uses it. (controller.cc)
Status EndVolume(Parts& parts, const Found& found, const std::string& what, const Call& call);

// Grows the volume's logical volume, and waits for the group's turn and for space that must be cleared
// before. (controller.cc)
Result<ExpandResult> GrowTo(Parts& parts, Pool& pool, const std::string& id, const CapacityRange& range,
                            const std::string& what, const Call& call);

// Publishes a file system that nobody stages, formatting it if need be. `guard`: the lock of request.id, that
// goes along with what takes longer than `call`. (node.cc)
Status PublishUnstaged(Parts& parts, const Found& found, const dm::Device& device,
                       const PublishRequest& request, KeyLocks::Guard& guard, const Call& call);

}  // namespace quarry::engine
