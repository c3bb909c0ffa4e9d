// What differs between two thin devices of a pool, for example between two snapshots of a volume.
//
// A subtree that both devices share is one metadata block at the same place of both trees. It is passed over
// without being read, so the cost is that of the difference, not that of the devices. A mapping counts as
// unchanged if both devices have the same data block, whatever its time. Equal bytes follow from that only
// while both devices are never written to.
//
// Threads, time and truth: as metadata_reader.h. Memory: two blocks of 4 KiB for each level of the trees.
#pragma once

#include <cstdint>
#include <functional>

#include "base/call.h"
#include "base/result.h"
#include "thin/metadata_reader.h"

namespace quarry::thin {

enum class Change {
  kChanged,  // both devices map the block, to different data
  kAdded,    // only the target maps it
  kRemoved,  // only the base maps it: reads as zeroes in the target
};

struct ChangedRun {
  Change change = Change::kChanged;
  uint64_t thin_begin = 0;  // in data blocks, as MappingRun
  uint64_t length = 0;
  auto operator<=>(const ChangedRun&) const = default;
};

// Gets each run, and returns false to end the walk.
using ChangeVisitor = std::function<bool(const ChangedRun&)>;

// Whether a walk ended because its call did.
inline bool IsEndOfCall(const Error& error) {
  return error.code() == Code::kTimeout || error.code() == Code::kCancelled;
}

// What a walk returns that came to the end of the device.
inline constexpr uint64_t kWholeDevice = UINT64_MAX;

// The runs in which `target` differs from `base`, from thin block `from` on, in order. Adjacent blocks of the
// same change are one run. A backup that has `base` needs all three kinds: without kRemoved it would keep
// discarded bytes. To continue later, give the end of the last run as `from`. kNotFound: the pool lacks one
// of the devices.
//
// A walk that has read `most_reads` blocks, or whose call has ended, ends once it has got beyond `from`. The
// result is where a next one goes on: all changes before that thin block were visited. kWholeDevice: there
// are none behind it. Without a meaning if the visitor has ended the walk.
Result<uint64_t> WalkDifference(MetadataReader& reader, DeviceId base, DeviceId target, uint64_t from,
                                const ChangeVisitor& visit, const Call& call,
                                uint64_t most_reads = UINT64_MAX);

}  // namespace quarry::thin
