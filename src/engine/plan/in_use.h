// Whether anybody uses a device.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"
#include "engine/world.h"

namespace quarry::engine {

// kPrecondition while somebody uses the device of `dm_uuid`, naming who: "<what> is in use: mounted at /x".
// udevd opens a device for a moment whenever a writer has closed it, so what is merely open, not mounted or
// held, gets as long as LVM itself would give it. Not active is unused.
Status CheckUnused(const World& world, const std::string& dm_uuid, const std::string& what, const Call& call);

}  // namespace quarry::engine
