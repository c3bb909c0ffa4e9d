// Mounting and binding on places that were opened before.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"
#include "mount/paths.h"

namespace quarry::mount {

// Through libmount: no helpers, no mtab, no lookups in fstab. As MountApi::Mount from there on. `standing`:
// options of the file system that are ours; errors count the caller's own.
Status MountOnto(const std::string& device, const Place& target, std::string_view fs_type,
                 const MountOptions& options, const std::vector<std::string>& standing);

// open_tree, mount_setattr, move_mount: the bind appears with its flags or not at all.
Status BindOnto(const Place& source, const Place& target, const MountOptions& options);

}  // namespace quarry::mount
