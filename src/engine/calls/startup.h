// What a start does before a pool is served: finishes or undoes what an earlier process left half-done.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/engine.h"

namespace quarry::engine {

struct Pool;

// Under the pool's turn: the group is made if it is to be and is not there; half-made volumes, legs without a
// volume and devices without a logical volume are removed; devices that a killed LVM left suspended are set
// going again; raw volumes that are published are held. Touches nothing that is not proven to be ours. What
// cannot be removed is logged and left; an error means that the pool could not be looked at. May be repeated.
Status Reconcile(Parts& parts, Pool& pool, const Call& call);

}  // namespace quarry::engine
