// The promises of every snapshot, of any origin. Aborts if one is broken. For fuzzers.
#pragma once

#include <cstdlib>

#include "lvm/names.h"
#include "lvm/snapshot.h"

namespace quarry::lvm::fuzz {

inline void Require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

inline void CheckPv(const PhysicalVolume& pv) {
  Extents next;
  for (const ExtentRange& range : pv.free) {
    Require(range.count.value > 0 && range.first >= next && range.end() <= pv.extent_count);
    next = range.end() + Extents{1};  // adjacent runs are merged, so there is a gap
  }
}

inline void CheckLv(const VolumeGroup& group, const LogicalVolume& lv) {
  Require(!lv.segments.empty() && !lv.name.empty() && group.FindLv(lv.name) == &lv);
  for (const Segment& segment : lv.segments) {
    for (const SegmentArea& area : segment.areas) {
      Require(area.pv_uuid.empty() != area.lv_name.empty());
      Require(area.pv_uuid.empty() || group.FindPv(area.pv_uuid) != nullptr);
      Require(area.lv_name.empty() || group.FindLv(area.lv_name) != nullptr);
    }
  }
  // Every query of a snapshot ends and stays within it.
  for (const PhysicalRange& range : PhysicalExtents(group, lv)) {
    Require(group.FindPv(range.pv_uuid) != nullptr);
  }
  (void)SharedPv(group, lv);
  const auto tags = ParseTags(lv.tags);
  if (tags.has_value() && tags->has_value() && (*tags)->state != VolumeState::kCreating) {
    const auto again = ParseTags(BuildTags(**tags));
    Require(again.has_value() && again->has_value() && (*again)->co_name == (*tags)->co_name);
  }
}

inline void CheckGroup(const VolumeGroup& group) {
  Require(group.extent_size.value > 0);
  for (const PhysicalVolume& pv : group.pvs) {
    CheckPv(pv);
  }
  for (const LogicalVolume& lv : group.lvs) {
    CheckLv(group, lv);
  }
}

}  // namespace quarry::lvm::fuzz
