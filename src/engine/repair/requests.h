// Takes requests of administrators: to scrub volumes, to trim them, to evacuate a disk. A scrub and an
// evacuation are checked and noted here; the repair loop carries them out.
#pragma once

#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/erase/eraser.h"
#include "engine/model/upkeep_requests.h"
#include "engine/pool/node.h"
#include "engine/repair/plan_scrub.h"

namespace quarry::engine {

// Upkeep::Scrub (engine/upkeep.h). (scrub.cc)
Result<std::vector<ScrubAnswer>> WantScrub(Node& node, Scrubs& scrubs, const ScrubRequest& request,
                                           const Call& call);

// Upkeep::Trim: makes mounted file systems report their free blocks to their disks (fstrim). (trim.cc)
Result<TrimResult> TrimAll(Node& node, const std::string& store, const Call& call);

// Disks::Evacuate (engine/disks.h). Recorded in a tag of the disk. (evacuation.cc)
Result<EvacuateResult> WantEvacuation(Node& node, Erasers& erasers, const EvacuateRequest& request,
                                      const Call& call);

}  // namespace quarry::engine
