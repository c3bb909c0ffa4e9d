// Whether anything else stands on a volume of Quarry's, or moves it.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"

namespace quarry::engine {

// OK if the volume is by itself: its extents are its own, nothing is stacked on it, nothing moves it
// (lvm/ownership.h). The caller asks this of the snapshot on which it plans a change, before it changes
// anything. kPrecondition names the volume, what stands on it, and the remedy. kUnavailable: the obstacle
// ends by itself.
Status CheckAlone(const Record& record);
// The same for an LV without a record. `what` names the LV in the error.
Status CheckAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& what);

}  // namespace quarry::engine
