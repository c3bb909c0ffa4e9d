// Asks a bucket's disks for data. A look at a file system whose blocks are in memory does not notice that its
// disk hangs, although every write of its clients waits.
#pragma once

#include <sys/types.h>

namespace quarry::bucket {

// Reads one block at each quarter of the volume, past the page cache (O_DIRECT). Returns when the disks have
// answered, be it with an error: a bad block says nothing about the rest of the bucket. Does nothing for a
// device that is none of device-mapper's, or is gone. Holds the device open meanwhile. Thread-safe.
void TouchDisk(dev_t device);

}  // namespace quarry::bucket
