// The cut: gives placeholders the bytes that their origins have at one instant. A placeholder is a blank,
// inactive thin volume that LVM has made. Its device in the pool is replaced, past LVM, by a snapshot of the
// origin's device (docs/thin.md, section 4: LVM's own text stays true at each step).
#pragma once

#include <string>
#include <vector>

#include "engine/plan/actions.h"

namespace quarry::engine {

// What CutAction does. While LVM's lock is held, so no command of LVM runs: the devices of the placeholders
// are removed from the pool, all origins that are active are suspended, the snapshots are made, and the
// origins are resumed. File systems are written back first, and frozen by the suspension. Then it is proven
// that the pool has the new devices.
//
// Writers wait for at most about 2 seconds (kLongestStall), unless a disk does not answer, or, where a write
// to one volume takes longer than that by itself, other writers to the same volume for it. A process that is
// killed leaves the origins suspended until the next start resumes them. After any failure the placeholders
// have no bytes, or all of them, or no device; they bear the tags of deleted volumes, and the eraser sees to
// them.
//
// kUnavailable: the suspension took too long, several times; another process has changed one of the volumes;
// or they were written to so much that they have more bytes than most_mapped. Try again. kPrecondition:
// something that an administrator has to end, such as a volume that another program holds suspended.
Status Cut(const CutAction& cut, const World& world, const Call& call);

// Writes back what the file systems on these volumes have in memory, and what the users of raw ones have
// written through the page cache.
Status WriteBack(const lvm::VolumeGroup& group, const std::vector<std::string>& lvs, const World& world,
                 const Call& call);

}  // namespace quarry::engine
