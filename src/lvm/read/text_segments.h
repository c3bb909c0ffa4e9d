// One segment of an LV, from its section of a metadata text. For text_snapshot.cc.
#pragma once

#include "base/result.h"
#include "lvm/read/text_extents.h"
#include "lvm/read/text_parts.h"
#include "lvm/read/text_sections.h"
#include "lvm/snapshot.h"

namespace quarry::lvm::text {

// Adds the extents that the segment uses to `used`, and the LVs that it is made of to `parts`. `lv` is the
// segment's LV: a thin segment names its pool and its origin. kUnsupported: a type, or a key, that only LVM
// can interpret.
Result<Segment> ReadSegment(Section& section, LogicalVolume& lv, UsedExtents& used, Parts& parts);

// Whether the LV with these segments is LVM's description of a snapshot, not a volume.
bool DescribesSnapshot(const std::vector<Section>& segments);
Result<Snapshot> ReadSnapshot(Section& section);

}  // namespace quarry::lvm::text
