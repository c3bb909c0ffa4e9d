// Places for new legs of a raid volume.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm {
namespace {

using layout::Run;

// The shortest run that suffices, on a PV not in `taken`.
std::optional<Run> BestRun(const FreeSpace& space, const std::set<std::string>& taken, uint64_t need) {
  std::optional<Run> best;
  for (size_t pv = 0; pv < space.pvs.size(); ++pv) {
    if (taken.contains(space.pvs[pv].uuid)) {
      continue;
    }
    for (const ExtentRange& free : space.pvs[pv].free) {
      if (free.count.value >= need && (!best.has_value() || free.count < best->range.count)) {
        best = Run{pv, free};
      }
    }
  }
  return best;
}

}  // namespace

Result<LegReplacement> PlaceLegs(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                                 const LogicalVolume& lv, const std::vector<bool>& which) {
  if (!geometry.has_metadata()) {
    return Error(Code::kPrecondition,
                 fmt::format("logical volume {} is {}: it has no redundancy", lv.name, geometry.Describe()));
  }
  const std::vector<std::vector<std::string>> pvs_of_legs = LegPvs(group, lv);
  LegReplacement out;
  std::set<std::string> taken;
  for (size_t i = 0; i < which.size(); ++i) {
    if (which[i]) {
      out.legs.push_back(i);
    } else {
      taken.insert(pvs_of_legs[i].begin(), pvs_of_legs[i].end());
    }
  }
  if (out.legs.empty()) {
    return Error(Code::kNotFound, fmt::format("no leg of logical volume {} is to be replaced", lv.name));
  }
  const uint64_t need = layout::LogicalExtents(lv).value / geometry.data_legs() + kMetadataExtents;
  for (const size_t leg : out.legs) {
    const std::optional<Run> run = BestRun(space, taken, need);
    if (!run.has_value()) {
      return Error(
          Code::kNoSpace,
          fmt::format("a new leg {} of logical volume {} needs {} extents ({}) in one piece on a disk "
                      "without another leg of it; there is none",
                      leg, lv.name, need, layout::SizeText({need}, group.extent_size)));
    }
    const FreePv& pv = space.pvs[run->pv];
    const ExtentRange range{run->range.first, {need}};
    out.pv_arguments.push_back(layout::PvArgument(pv, std::span(&range, 1)));
    taken.insert(pv.uuid);
  }
  return out;
}

}  // namespace quarry::lvm
