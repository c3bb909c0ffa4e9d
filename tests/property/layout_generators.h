// Random volume groups for properties.
#pragma once

#include <rapidcheck.h>

#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm::testing {

struct GroupShape {
  size_t least_pvs, most_pvs;
  size_t least_runs, most_runs;  // free runs of a PV
  uint64_t least_run, most_run;  // extents of a free run
};

inline rc::Gen<VolumeGroup> GroupShaped(const GroupShape& shape) {
  using Lengths =
      std::vector<std::pair<uint64_t, uint64_t>>;  // used extents before a run, extents of the run
  const auto run = rc::gen::pair(rc::gen::inRange<uint64_t>(1, 4),
                                 rc::gen::inRange<uint64_t>(shape.least_run, shape.most_run + 1));
  const auto pv = rc::gen::mapcat(rc::gen::inRange<size_t>(shape.least_runs, shape.most_runs + 1),
                                  [run](size_t runs) { return rc::gen::container<Lengths>(runs, run); });
  const auto pvs =
      rc::gen::mapcat(rc::gen::inRange<size_t>(shape.least_pvs, shape.most_pvs + 1),
                      [pv](size_t count) { return rc::gen::container<std::vector<Lengths>>(count, pv); });
  return rc::gen::map(pvs, [](const std::vector<Lengths>& all) {
    std::vector<Runs> free;
    for (const Lengths& lengths : all) {
      Runs& runs = free.emplace_back();
      uint64_t at = 0;
      for (const auto& [gap, length] : lengths) {
        runs.push_back({{at + gap}, {length}});
        at += gap + length;
      }
    }
    return GroupOf(free);
  });
}

// Any group, also one without space.
inline rc::Gen<VolumeGroup> AnyGroup() {
  return GroupShaped({1, 8, 0, 6, 1, 12});
}
// Groups with space for each of AnyGeometry().
inline rc::Gen<VolumeGroup> RoomyGroup() {
  return GroupShaped({6, 8, 1, 5, 3, 12});
}

inline rc::Gen<Geometry> AnyGeometry() {
  return rc::gen::elementOf(SmallGeometries(6));
}

inline std::string Picture(const VolumeGroup& group) {
  std::string text;
  for (const PhysicalVolume& pv : group.pvs) {
    text += pv.device;
    for (const ExtentRange& run : pv.free) {
      text += " " + std::to_string(run.first.value) + "+" + std::to_string(run.count.value);
    }
    text += "\n";
  }
  return text;
}

}  // namespace quarry::lvm::testing
