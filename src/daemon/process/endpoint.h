// The place of our socket in the file system.
#pragma once

#include "base/path.h"
#include "base/result.h"

namespace quarry::daemon {

// Makes sure that a socket can be bound at `path`: its directory exists, and nothing is there, or a socket
// that nobody serves, which is removed. kPrecondition naming what stands in the way: a process that serves
// it, or a file that is no socket. Two processes that do this at once must exclude each other (NodeLock).
Status ClaimSocket(const AbsolutePath& path);

}  // namespace quarry::daemon
