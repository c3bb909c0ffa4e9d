// The per-mount flags of mount(2), and the words that the kernel has for them in mountinfo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mount/mount_api.h"

namespace quarry::fakes {

// MS_* flags that belong to a mount and not to its file system: the flags that Bind() can set.
extern const uint64_t kPerMountFlags;
// The kPerMountFlags in force at a mount, from its words in mountinfo. "ro" of the file system counts too.
uint64_t PerMountFlagsOf(const mount::MountEntry& entry);
// The words that mountinfo shows for a mount with these MS_* flags: "ro", "nosuid", …
std::vector<std::string> PerMountWords(uint64_t flags);

}  // namespace quarry::fakes
