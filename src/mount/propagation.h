// Whether a mount that we make is seen by the host: a container has a mount namespace of its own, and only
// what is mounted below a mount that it shares with the host gets there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/path.h"
#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// Those for whom we mount.
struct Audience {
  bool in_its_namespace = false;   // our mount namespace is the host's
  std::optional<MountTable> host;  // the host's mounts; nullopt if they cannot be seen from here
};

// By process 1, if that is the host's: in a PID namespace of our own it is not, and says nothing. `proc`:
// where procfs is. What must not be looked at counts as what cannot be seen; kCorrupt if the host's table
// makes no sense.
Result<Audience> LookForAudience(const std::string& proc);

// Whether what is mounted at `path`, which lies in the mount `mount_id` of `ours`, reaches them: that mount
// is shared, and with one of the host's where those can be seen. kPrecondition naming the path, the mount and
// the remedy. Pure.
Status CheckPropagates(const MountTable& ours, uint64_t mount_id, const Audience& audience,
                       const AbsolutePath& path);

}  // namespace quarry::mount
