// Who uses a block device: what sysfs and every mount namespace show.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// As MountApi::Users, with procfs and sysfs at these places. Each mount namespace is read once, through its
// first process.
Result<std::vector<std::string>> UsersOf(DeviceNumber device, const std::string& proc,
                                         const std::string& sys);

}  // namespace quarry::mount
