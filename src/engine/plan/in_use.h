// Whether a device is in use.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"
#include "engine/world.h"

namespace quarry::engine {

// kPrecondition while the device `dm_uuid` is in use; the error names the users: "<what> is in use: mounted
// at /x". udevd opens a device briefly whenever a writer has closed it. So a device that is open, but not
// mounted or held by another device, gets as much time to close as LVM itself would give it. An inactive
// device is not in use.
Status CheckUnused(const World& world, const std::string& dm_uuid, const std::string& what, const Call& call);

}  // namespace quarry::engine
