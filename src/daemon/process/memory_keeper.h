// Lets quarryd exit although a disk has not answered a read.
//
// The kernel frees a process only when all its asynchronous reads have ended, because their buffers lie in
// its memory. A read from a silent disk may never end. A killed process that waits for such a read would keep
// its descriptors and its locks. No successor could then serve the other disks. Therefore a second
// process shares the memory, and nothing else: that process is the one that waits for the disk.
#pragma once

#include "base/result.h"

namespace quarry::daemon {

// Starts the second process. Call it once, on the thread that lives longest: the second process ends one
// second after this process. It has no descriptors, takes no signals but KILL, and does nothing.
Status KeepMemory();

}  // namespace quarry::daemon
