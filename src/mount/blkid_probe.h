// Finds what is on a device, by libblkid's low-level probing (no cache, no udev).
#pragma once

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// Detects superblocks and partition tables, including backups at the end of the device. Reads through `fd`;
// the file offset does not matter. kIo: the device could not be read, so its content is unknown.
Result<Content> ProbeContent(int fd);

// Overwrites the magic of every signature that ProbeContent would find, through the writable `fd`, and
// flushes. All other bytes stay as they are.
Status WipeSignatures(int fd);

}  // namespace quarry::mount
