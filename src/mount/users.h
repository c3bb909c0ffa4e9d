// The users of a block device, from sysfs and every mount namespace.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// As MountApi::Users, with procfs and sysfs at these paths. Each mount namespace is read once, through its
// first process.
Result<std::vector<std::string>> UsersOf(DeviceNumber device, const std::string& proc,
                                         const std::string& sys);

}  // namespace quarry::mount
