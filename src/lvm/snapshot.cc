#include "lvm/snapshot.h"

#include <algorithm>
#include <set>

#include "lvm/names.h"

namespace quarry::lvm {
namespace {

// Hidden LVs nest a few levels at most (volume, leg, the leg's integrity parts). The bound stops a snapshot
// built by hand from sending the walk in circles.
constexpr int kMaxDepth = 8;

void Collect(const VolumeGroup& group, const LogicalVolume& lv, int depth, std::vector<PhysicalRange>& out);

void CollectByName(const VolumeGroup& group, std::string_view name, int depth,
                   std::vector<PhysicalRange>& out) {
  if (const LogicalVolume* below = group.FindLv(name); below != nullptr && depth < kMaxDepth) {
    Collect(group, *below, depth + 1, out);
  }
}

// An area on a leg: the whole leg (legs belong to one LV, so nothing else is in it) and the leg's metadata.
void CollectArea(const VolumeGroup& group, const SegmentArea& area, int depth,
                 std::vector<PhysicalRange>& out) {
  if (!area.pv_uuid.empty()) {
    out.push_back({area.pv_uuid, area.range});
    return;
  }
  CollectByName(group, area.lv_name, depth, out);
  if (const std::string metadata = MetadataLvName(area.lv_name); !metadata.empty()) {
    CollectByName(group, metadata, depth, out);
  }
}

void Collect(const VolumeGroup& group, const LogicalVolume& lv, int depth, std::vector<PhysicalRange>& out) {
  for (const Segment& segment : lv.segments) {
    for (const SegmentArea& area : segment.areas) {
      CollectArea(group, area, depth, out);
    }
  }
  // dm-integrity keeps its checksums beside the leg, in "<leg>_imeta", which no area of a segment names.
  if (lv.hidden) {
    CollectByName(group, lv.name + "_imeta", depth, out);
  }
}

}  // namespace

const PhysicalVolume* VolumeGroup::FindPv(std::string_view pv_uuid) const {
  const auto found = std::ranges::find(pvs, pv_uuid, &PhysicalVolume::uuid);
  return found == pvs.end() ? nullptr : &*found;
}

const LogicalVolume* VolumeGroup::FindLv(std::string_view lv_name) const {
  const auto found = std::ranges::find(lvs, lv_name, &LogicalVolume::name);
  return found == lvs.end() ? nullptr : &*found;
}

bool VolumeGroup::LacksPv(std::string_view pv_uuid) const {
  const PhysicalVolume* const pv = FindPv(pv_uuid);
  return pv == nullptr || pv->missing;
}

size_t VolumeGroup::MissingPvs() const {
  return static_cast<size_t>(std::ranges::count_if(pvs, &PhysicalVolume::missing));
}

VolumeGroup VolumeGroup::MetadataOnly() const {
  VolumeGroup out = *this;
  for (LogicalVolume& lv : out.lvs) {
    lv.active = false;
    lv.health.clear();
    lv.sync_percent.reset();
    lv.sync_action.clear();
  }
  return out;
}

std::vector<PhysicalRange> PhysicalExtents(const VolumeGroup& group, const LogicalVolume& lv) {
  std::vector<PhysicalRange> out;
  Collect(group, lv, 0, out);
  return out;
}

std::vector<std::vector<PhysicalRange>> ExtentsByLeg(const VolumeGroup& group, const LogicalVolume& lv) {
  std::vector<std::vector<PhysicalRange>> legs;
  for (const Segment& segment : lv.segments) {
    legs.resize(std::max(legs.size(), segment.areas.size()));
    for (size_t i = 0; i < segment.areas.size(); ++i) {
      CollectArea(group, segment.areas[i], 0, legs[i]);
    }
  }
  return legs;
}

std::vector<std::vector<std::string>> LegPvs(const VolumeGroup& group, const LogicalVolume& lv) {
  std::vector<std::vector<std::string>> out;
  for (const std::vector<PhysicalRange>& leg : ExtentsByLeg(group, lv)) {
    std::set<std::string> pvs;
    for (const PhysicalRange& range : leg) {
      pvs.insert(range.pv_uuid);
    }
    out.emplace_back(pvs.begin(), pvs.end());
  }
  return out;
}

std::vector<bool> LostLegs(const VolumeGroup& group, const LogicalVolume& lv) {
  std::vector<bool> out;
  for (const std::vector<std::string>& leg : LegPvs(group, lv)) {
    out.push_back(leg.empty() ||
                  std::ranges::any_of(leg, [&](const std::string& uuid) { return group.LacksPv(uuid); }));
  }
  return out;
}

std::vector<bool> LegsOn(const VolumeGroup& group, const LogicalVolume& lv, std::string_view pv_uuid) {
  std::vector<bool> out;
  for (const std::vector<std::string>& leg : LegPvs(group, lv)) {
    out.push_back(std::ranges::find(leg, pv_uuid) != leg.end());
  }
  return out;
}

std::optional<std::string> SharedPv(const VolumeGroup& group, const LogicalVolume& lv) {
  std::set<std::string> seen;
  for (const std::vector<std::string>& leg : LegPvs(group, lv)) {
    for (const std::string& pv : leg) {
      if (!seen.insert(pv).second) {
        return pv;
      }
    }
  }
  return std::nullopt;
}

}  // namespace quarry::lvm
