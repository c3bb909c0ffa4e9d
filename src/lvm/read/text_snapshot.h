// A volume group from the text of its metadata alone, no LVM asked: equal to what report_parser.h makes of
// LVM's report on the same commit, but for the kernel's view, of which a text knows nothing. Also where PVs
// are lost, as long as nothing was committed without them: LVM marks them in the text then. Pure.
//
// Much of what a text may say is LVM's business. So this reader knows a part of it and nothing else: groups
// whole and at rest, of linear, striped and raid volumes. Every section, key, flag and segment type that it
// does not know, each reference that does not add up, is answered with "ask LVM"; so that being right never
// depends on knowing all that there is.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// What the text does not say of a PV.
struct TextPv {
  std::string uuid;
  std::string device;   // where LVM sees it; empty: nowhere
  Bytes metadata_size;  // of its metadata area, if it has exactly one and that is in use; 0 if it has none
                        // or the PV is lost
};

// `text` is all that the raw location names, its closing NUL included: its length counts for metadata_free.
// `pvs` are those that the group must have, neither more nor fewer, in the order in which the snapshot is to
// list them. kUnsupported: ask LVM; says what is not understood. kCorrupt: no such text.
Result<VolumeGroup> SnapshotFromText(std::string_view text, std::span<const TextPv> pvs);

}  // namespace quarry::lvm
