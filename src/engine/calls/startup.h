// What a start does before a pool is served: finishes or undoes what an earlier process left unfinished.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/engine.h"

namespace quarry::engine {

struct Pool;

// Runs under the pool's turn:
// - Makes the group if the configuration wants it and it does not exist.
// - Removes unfinished volumes, legs without a volume, and devices without a logical volume.
// - Resumes devices that a killed LVM left suspended.
// - Takes a hold on every raw volume that is published.
//
// Touches only what is proven to be managed. Logs and leaves what cannot be removed. An error means that the
// pool could not be read. May be repeated.
Status Reconcile(Parts& parts, Pool& pool, const Call& call);

}  // namespace quarry::engine
