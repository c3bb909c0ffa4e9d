// What is on a device, by libblkid's low-level probing (no cache, no udev).
#pragma once

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// Super blocks and partition tables, backups at the end of the device included. Reads through `fd`, whose
// file offset means nothing. kIo: could not be read; says nothing about what is there.
Result<Content> ProbeContent(int fd);

// Overwrites the magic of every signature that ProbeContent would find, through the writable `fd`, and
// flushes. The rest stays as it is.
Status WipeSignatures(int fd);

}  // namespace quarry::mount
