// Lets quarryd end though a disk has not answered a read of its.
//
// The kernel takes a process apart only when all its asynchronous reads have ended: their buffers are its
// memory. On a disk that does not answer that may be never. Until then the dead process, which nothing can
// kill any more, would keep its descriptors and with them its locks, and no successor could serve the other
// disks. So a second process shares the memory, and nothing else: what waits for the disk is that one.
#pragma once

#include "base/result.h"

namespace quarry::daemon {

// Starts it, once in a process, on the thread that lives longest: it ends with that, by itself. It has no
// descriptors, takes no signals but KILL, and does nothing.
Status KeepMemory();

}  // namespace quarry::daemon
