// Converts mount options between the three forms of the kernel: MS_* of mount(2), MOUNT_ATTR_* of
// mount_setattr(2), and the words of mountinfo. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// The words that mountinfo shows for a mount with these MS_* flags: "ro", "nosuid", …
std::vector<std::string> PerMountWords(uint64_t flags);

}  // namespace quarry::mount
