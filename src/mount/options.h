// Mount options in the kernel's three spellings: MS_* of mount(2), MOUNT_ATTR_* of mount_setattr(2), and the
// words of mountinfo. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mount/mount_api.h"

namespace quarry::mount {

// What mount_setattr(2) has to be told so that a mount gets the per-mount flags of `options`: what is on goes
// on, what was opted out of comes off, all else stays as the source mount has it.
struct AttributeChange {
  uint64_t set = 0;
  uint64_t clear = 0;
};
AttributeChange AttributesOf(const MountOptions& options);

// The words that mountinfo shows for a mount with these MS_* flags: "ro", "nosuid", …
std::vector<std::string> PerMountWords(uint64_t flags);

}  // namespace quarry::mount
