// Inline volumes of pods (Kubernetes: "CSI ephemeral volumes"): made by the call that publishes them, erased
// by the one that unpublishes them. One is a volume like any other but for a tag that says so and a name,
// which is the id that the CO made up for it (its handle). Only PublishEphemeral, Unpublish and Stats know
// handles.
#pragma once

#include "engine/calls/parts.h"

namespace quarry::engine {

// The second half of unpublishing one: ends it, unless it is mounted elsewhere on this node. Under the lock
// of its handle. kPrecondition naming who has it open.
Status EndEphemeral(Parts& parts, const Found& found, const Call& call);

// Deletes those in `left_behind` whose time has come. `report` is told when to look again.
void EndLeftBehind(Parts& parts, const Call& call, RepairReport& report);

}  // namespace quarry::engine
