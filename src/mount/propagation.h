// Whether the host sees a new mount. A container has its own mount namespace, and a mount reaches the host
// only below a mount that is shared with the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/path.h"
#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// The processes that a mount is for.
struct Audience {
  bool in_its_namespace = false;   // our mount namespace is the host's
  std::optional<MountTable> host;  // the host's mounts; nullopt if they cannot be seen from here
};

// Uses process 1, if it is the host's. In a PID namespace of our own, process 1 is another process and proves
// nothing. `proc`: the mount point of procfs. What may not be inspected counts as not visible. kCorrupt if
// the host's table is malformed.
Result<Audience> LookForAudience(const std::string& proc);

// Whether a mount at `path` reaches the audience. `path` lies in the mount `mount_id` of `ours`. That mount
// must be shared, and shared with a mount of the host if the host's mounts are visible. kPrecondition names
// the path, the mount and the remedy. Pure.
Status CheckPropagates(const MountTable& ours, uint64_t mount_id, const Audience& audience,
                       const AbsolutePath& path);

}  // namespace quarry::mount
