// Gives up the rights of root for good.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace quarry::gateway {

// This process becomes `user` and `group`, without supplementary groups, and neither it nor its children can
// gain rights by a set-user-ID program. If it is `user` already, it keeps its groups and capabilities: a
// service manager chose them. Returns only when the kernel confirmed it. kPrecondition: `user` is root, or
// this process is neither root nor `user`.
Status BecomeUser(uid_t user, gid_t group);

}  // namespace quarry::gateway
