// Takes a request to scrub volumes. The request is checked here; the repair loop carries it out.
#pragma once

#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/upkeep_requests.h"
#include "engine/pool/node.h"
#include "engine/repair/plan_scrub.h"

namespace quarry::engine {

// Upkeep::Scrub (engine/upkeep.h).
Result<std::vector<ScrubAnswer>> WantScrub(Node& node, Scrubs& scrubs, const ScrubRequest& request,
                                           const Call& call);

}  // namespace quarry::engine
