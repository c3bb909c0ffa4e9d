// A volume group from its metadata text alone, without LVM. The result equals that of report_parser.h for
// LVM's report on the same commit, except for the kernel's view, which a text does not contain. This also
// holds while PVs are missing, as long as no commit was made without them. A commit without a PV marks it as
// missing in the text, and such a text is left to LVM. Pure.
//
// Much of what a text may contain is LVM's business. This reader knows only part of it: complete groups of
// linear, striped and raid volumes, snapshots (COW), thin pools and thin volumes, in which nothing is
// moved, merged or converted. Every unknown section, key, flag or segment type, and every inconsistent
// reference, is answered with "ask LVM". So the reader is correct without knowing everything that LVM may
// write.
//
// text_sections.h sorts the text, text_segments.h reads segments, text_extents.h counts extents, and
// text_parts.h checks how the LVs hang together.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Facts about a PV that the text does not contain.
struct TextPv {
  std::string uuid;
  std::string device;  // where LVM sees the PV; empty: nowhere
  // Of its metadata area, if the PV has exactly one and it is in use. 0 if the PV has none or is missing.
  Bytes metadata_size;
};

// `text` is everything that the raw location names, including the closing NUL: its length counts for
// metadata_free. `pvs` are exactly the PVs that the group must have, in the order of the snapshot.
// kUnsupported: ask LVM; the message says what is not understood. kCorrupt: not a metadata text.
Result<VolumeGroup> SnapshotFromText(std::string_view text, std::span<const TextPv> pvs);

}  // namespace quarry::lvm
