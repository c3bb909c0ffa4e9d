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

// Where a new mount must be visible: in the host's mount namespace.
struct Audience {
  bool in_its_namespace = false;   // our mount namespace is the host's
  std::optional<MountTable> host;  // the host's mounts; nullopt if they cannot be seen from here
};

// Finds the host's mount namespace through process 1. If quarryd has a PID namespace of its own, process 1 is
// not the host's, and the host's mounts cannot be seen. They cannot be seen either if quarryd may not inspect
// process 1. `proc`: the mount point of procfs. kCorrupt if the host's table is malformed.
Result<Audience> LookForAudience(const std::string& proc);

// Whether a mount at `path` reaches the audience. `path` lies in the mount `mount_id` of `ours`. That mount
// must be shared, and shared with a mount of the host if the host's mounts are visible. kPrecondition names
// the path, the mount and the remedy. Pure.
Status CheckPropagates(const MountTable& ours, uint64_t mount_id, const Audience& audience,
                       const AbsolutePath& path);

}  // namespace quarry::mount
