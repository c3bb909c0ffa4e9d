// Inline volumes of pods (Kubernetes: "CSI ephemeral volumes"). The call that publishes an inline volume
// makes it, the call that unpublishes it erases it. It is a volume like any other, except for a tag that
// marks it and its name: the name is the id that the CO made up, called its handle. Only PublishEphemeral,
// Unpublish and Stats know handles.
#pragma once

#include "engine/calls/parts.h"
#include "engine/model/upkeep_requests.h"

namespace quarry::engine {

// The second half of unpublishing an inline volume: deletes it, unless it is mounted elsewhere on this node.
// Called under the lock of its handle. kPrecondition naming the process that has it open.
Status EndEphemeral(Parts& parts, const Found& found, const Call& call);

// Deletes the inline volumes in `left_behind` that can be deleted now. `report` gets the time of the next
// attempt.
void EndLeftBehind(Parts& parts, const Call& call, RepairReport& report);

}  // namespace quarry::engine
