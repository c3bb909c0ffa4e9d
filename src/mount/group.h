// Gives a file system to a group (VOLUME_MOUNT_GROUP). Other drivers use a mount option for this, which ext4,
// xfs and btrfs do not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/call.h"
#include "base/result.h"

namespace quarry::mount {

// Directories nested deeper than this are refused. The walk stores a fixed amount of data per level.
inline constexpr size_t kDeepestTree = 65536;

// Gives the directory `root` (O_PATH is enough) and everything below it in the same mount to `gid`, as
// MountApi::GiveToGroup says. Errors use `name` for the root. Needs a few megabytes at most, whatever the
// tree holds and whatever its users do meanwhile. kPrecondition also for directories deeper than
// kDeepestTree, and if the kernel does not permit a required change.
Status GiveTree(int root, const std::string& name, uint32_t gid, const Call& call);

}  // namespace quarry::mount
