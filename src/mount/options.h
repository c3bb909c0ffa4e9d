// Converts mount options between two forms of the kernel: MS_* of mount(2), and MOUNT_ATTR_* of
// mount_setattr(2). Pure.
#pragma once

#include <cstdint>

#include "mount/mount_api.h"

namespace quarry::mount {

// The arguments of mount_setattr(2) that give a mount the per-mount flags of `options`. Flags that are on are
// set, flags that were opted out of are cleared, and all others stay as in the source mount. Access time is
// different: only noatime, relatime and strictatime change it. "atime" alone changes nothing on a noatime
// source.
struct AttributeChange {
  uint64_t set = 0;
  uint64_t clear = 0;
};
AttributeChange AttributesOf(const MountOptions& options);

}  // namespace quarry::mount
