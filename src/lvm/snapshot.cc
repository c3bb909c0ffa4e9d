#include "lvm/snapshot.h"

#include <algorithm>
#include <set>

#include "lvm/names.h"

namespace quarry::lvm {
namespace {

// Hidden LVs nest a few levels at most (volume, leg, the leg's integrity parts). The limit stops an endless
// walk through a hand-built snapshot with a cycle.
constexpr int kMaxDepth = 8;

constexpr ExtentRange kWhole{{0}, {UINT32_MAX}};  // LVM counts extents with 32 bits

ExtentRange Common(const ExtentRange& a, const ExtentRange& b) {
  const Extents first = std::max(a.first, b.first);
  const Extents end = std::min(a.end(), b.end());
  return {first, end > first ? end - first : Extents{}};
}

// The part of an area of `segment` that holds the segment's logical extents `part`. It is rounded outward if
// `part` cuts a row of stripes.
ExtentRange PartOf(const SegmentArea& area, const Segment& segment, const ExtentRange& part) {
  const uint64_t count = area.range.count.value;
  if (part == segment.logical || count == 0 || segment.logical.count.value % count != 0) {
    return area.range;
  }
  const uint64_t legs = segment.logical.count.value / count;
  const uint64_t begin = (part.first - segment.logical.first).value / legs;
  const uint64_t end = ((part.end() - segment.logical.first).value + legs - 1) / legs;
  return {area.range.first + Extents{begin}, {end - begin}};
}

void Collect(const VolumeGroup& group, const LogicalVolume& lv, const ExtentRange& range, int depth,
             std::vector<PhysicalRange>& out);

void CollectByName(const VolumeGroup& group, std::string_view name, const ExtentRange& range, int depth,
                   std::vector<PhysicalRange>& out) {
  if (const LogicalVolume* below = group.FindLv(name); below != nullptr && depth < kMaxDepth) {
    Collect(group, *below, range, depth + 1, out);
  }
}

// Collects `range` of an area. A raid leg belongs to one LV, so all of the leg is collected, including its
// metadata and extents that the raid does not use. Any other LV below may also hold extents of another
// volume, as with pvmove.
void CollectArea(const VolumeGroup& group, const SegmentArea& area, const ExtentRange& range, int depth,
                 std::vector<PhysicalRange>& out) {
  if (!area.pv_uuid.empty()) {
    out.push_back({area.pv_uuid, range});
    return;
  }
  const std::string metadata = MetadataLvName(area.lv_name);
  CollectByName(group, area.lv_name, metadata.empty() ? range : kWhole, depth, out);
  if (!metadata.empty()) {
    CollectByName(group, metadata, kWhole, depth, out);
  }
}

// Collects what a thin pool has beside its data.
void CollectPoolMetadata(const VolumeGroup& group, const Segment& segment, int depth,
                         std::vector<PhysicalRange>& out) {
  if (segment.thin_pool.has_value()) {
    CollectByName(group, segment.thin_pool->metadata_lv, kWhole, depth, out);
  }
}

// Collects the logical extents `range` of `lv`.
void Collect(const VolumeGroup& group, const LogicalVolume& lv, const ExtentRange& range, int depth,
             std::vector<PhysicalRange>& out) {
  for (const Segment& segment : lv.segments) {
    const ExtentRange part = Common(segment.logical, range);
    for (const SegmentArea& area : segment.areas) {
      if (part.count > Extents{}) {
        CollectArea(group, area, PartOf(area, segment, part), depth, out);
      }
    }
    CollectPoolMetadata(group, segment, depth, out);
  }
  // dm-integrity keeps its checksums beside the leg, in "<leg>_imeta". No area of a segment names that LV.
  if (lv.hidden) {
    CollectByName(group, lv.name + "_imeta", kWhole, depth, out);
  }
}

}  // namespace

std::optional<PoolDiscards> PoolDiscardsNamed(std::string_view word) {
  if (word == "ignore") {
    return PoolDiscards::kIgnore;
  }
  if (word == "nopassdown") {
    return PoolDiscards::kNoPassdown;
  }
  return word == "passdown" ? std::optional(PoolDiscards::kPassdown) : std::nullopt;
}

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
  Collect(group, lv, kWhole, 0, out);
  return out;
}

std::vector<std::vector<PhysicalRange>> ExtentsByLeg(const VolumeGroup& group, const LogicalVolume& lv) {
  std::vector<std::vector<PhysicalRange>> legs;
  for (const Segment& segment : lv.segments) {
    legs.resize(std::max(legs.size(), segment.areas.size()));
    for (size_t i = 0; i < segment.areas.size(); ++i) {
      CollectArea(group, segment.areas[i], segment.areas[i].range, 0, legs[i]);
    }
    if (!legs.empty()) {
      CollectPoolMetadata(group, segment, 0, legs.front());
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
