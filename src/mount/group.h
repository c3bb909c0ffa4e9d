// Giving a file system to a group (VOLUME_MOUNT_GROUP): what others do with a mount option, which ext4, xfs
// and btrfs do not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/call.h"
#include "base/result.h"

namespace quarry::mount {

// Directories nested deeper than this are refused: so much is remembered of each level.
inline constexpr size_t kDeepestTree = 65536;

// Gives the directory `root` (O_PATH is enough) and all that is below it in the same mount to `gid`, as
// MountApi::GiveToGroup says; `name` is what errors call it. Takes a few megabytes at most, whatever is there
// and whatever its users do meanwhile. kPrecondition also for directories deeper than kDeepestTree, and if
// the kernel does not let us set what is needed.
Status GiveTree(int root, const std::string& name, uint32_t gid, const Call& call);

}  // namespace quarry::mount
