// What somebody else put on a volume of ours, or does with it.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"

namespace quarry::engine {

// Whether the volume is by itself: every extent its own, nothing on top, nothing moving (lvm/ownership.h). To
// be asked of the snapshot on which a change of the volume is planned, before anything is changed.
// kPrecondition naming the volume, what stands on it and the remedy; kUnavailable for what ends by itself.
Status CheckAlone(const Record& record);
// The same of one that no record is of. `what` names it in the error.
Status CheckAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& what);

}  // namespace quarry::engine
