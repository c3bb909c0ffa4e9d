// Prepares the path of quarryd's socket.
#pragma once

#include "base/path.h"
#include "base/result.h"

namespace quarry::daemon {

// Makes sure that a socket can be bound at `path`: the directory exists, and `path` is free. A stale socket,
// which no process serves, is removed. kPrecondition names the obstacle: a process that serves the socket, or
// a file that is not a socket. Two processes that call this at once must exclude each other (NodeLock).
Status ClaimSocket(const AbsolutePath& path);

}  // namespace quarry::daemon
