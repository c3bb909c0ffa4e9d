// Mounts and binds on places that are already open.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"
#include "mount/paths.h"

namespace quarry::mount {

// Mounts through libmount: no helpers, no mtab, no lookups in fstab. Otherwise as MountApi::Mount.
// `standing`: options of the file system that Quarry adds; positions in errors count the caller's options
// only.
Status MountOnto(const std::string& device, const Place& target, std::string_view fs_type,
                 const MountOptions& options, const std::vector<std::string>& standing);

// open_tree, mount_setattr, move_mount: the bind mount appears with its flags or not at all.
Status BindOnto(const Place& source, const Place& target, const MountOptions& options);

}  // namespace quarry::mount
