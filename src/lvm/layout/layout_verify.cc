// Reads a volume leg by leg from LVM's report, and compares it with a plan.
#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"
#include "lvm/names.h"

namespace quarry::lvm {
namespace {

Error Corrupt(const LogicalVolume& lv, std::string_view what) {
  return {Code::kCorrupt, fmt::format("logical volume {}: {}", lv.name, what)};
}

// Ranges of a sub-volume that is directly on disks.
Result<std::vector<PhysicalRange>> PlainRanges(const VolumeGroup& group, std::string_view name) {
  const LogicalVolume* lv = group.FindLv(name);
  if (lv == nullptr) {
    return Error(Code::kCorrupt, fmt::format("sub-volume {} is not in the report", name));
  }
  std::vector<PhysicalRange> ranges;
  for (const Segment& segment : lv->segments) {
    if (segment.areas.size() != 1 || segment.areas.front().pv_uuid.empty()) {
      return Corrupt(*lv, fmt::format("a leg with a segment of type {}", segment.type));
    }
    ranges.push_back({segment.areas.front().pv_uuid, segment.areas.front().range});
  }
  return ranges;
}

Result<layout::LegExtents> ReadLeg(const VolumeGroup& group, const std::string& image, bool with_metadata) {
  layout::LegExtents leg;
  QUARRY_ASSIGN(leg.data, PlainRanges(group, image));
  if (with_metadata) {
    QUARRY_ASSIGN(leg.metadata, PlainRanges(group, MetadataLvName(image)));
  }
  return leg;
}

// Joins adjacent ranges, whether or not LVM has merged their segments.
std::vector<PhysicalRange> Joined(const std::vector<PhysicalRange>& ranges) {
  std::vector<PhysicalRange> joined;
  for (const PhysicalRange& next : ranges) {
    if (next.range.count.value == 0) {
      continue;
    }
    if (!joined.empty() && joined.back().pv_uuid == next.pv_uuid &&
        joined.back().range.end() == next.range.first) {
      joined.back().range.count += next.range.count;
    } else {
      joined.push_back(next);
    }
  }
  return joined;
}

std::vector<PhysicalRange> Sorted(std::vector<PhysicalRange> ranges) {
  std::ranges::sort(ranges, {}, [](const PhysicalRange& r) { return std::tuple(r.pv_uuid, r.range); });
  return ranges;
}

std::vector<PhysicalRange> WithoutFirst(const std::vector<PhysicalRange>& ranges, uint64_t extents) {
  std::vector<PhysicalRange> rest;
  for (PhysicalRange next : ranges) {
    const Extents skipped{std::min(extents, next.range.count.value)};
    extents -= skipped.value;
    next.range = {next.range.first + skipped, next.range.count - skipped};
    rest.push_back(std::move(next));
  }
  return rest;
}

std::string Text(const VolumeGroup& group, const std::vector<PhysicalRange>& ranges) {
  std::string text;
  for (const PhysicalRange& r : ranges) {
    const PhysicalVolume* pv = group.FindPv(r.pv_uuid);
    text += fmt::format("{}{}:{}-{}", text.empty() ? "" : " ", pv == nullptr ? r.pv_uuid : pv->device,
                        r.range.first.value, r.range.end().value - 1);
  }
  return text.empty() ? "nothing" : text;
}

Status Compare(const VolumeGroup& group, const LogicalVolume& lv, std::string_view what,
               const std::vector<PhysicalRange>& planned, const std::vector<PhysicalRange>& made) {
  if (planned == made) {
    return Ok();
  }
  return Corrupt(lv, fmt::format("{} was planned on {}, LVM made it on {}", what, Text(group, planned),
                                 Text(group, made)));
}

}  // namespace

namespace layout {

Extents LogicalExtents(const LogicalVolume& lv) {
  Extents sum;
  for (const Segment& segment : lv.segments) {
    sum += segment.logical.count;
  }
  return sum;
}

Result<std::vector<LegExtents>> ReadLegs(const VolumeGroup& group, const LogicalVolume& lv) {
  if (lv.segments.empty()) {
    return Corrupt(lv, "it has no segments");
  }
  std::vector<LegExtents> legs(lv.segments.front().areas.size());
  for (const Segment& segment : lv.segments) {
    if (segment.areas.size() != legs.size()) {
      return Corrupt(lv, fmt::format("its segments have {} and {} legs", legs.size(), segment.areas.size()));
    }
    for (size_t i = 0; i < legs.size(); ++i) {
      const SegmentArea& area = segment.areas[i];
      if (!area.pv_uuid.empty()) {
        legs[i].data.push_back({area.pv_uuid, area.range});
        continue;
      }
      if (lv.segments.size() != 1) {
        return Corrupt(lv, "several segments above sub-volumes");
      }
      const bool with_metadata = group.FindLv(MetadataLvName(area.lv_name)) != nullptr;
      QUARRY_ASSIGN(legs[i], ReadLeg(group, area.lv_name, with_metadata));
    }
  }
  return legs;
}

}  // namespace layout

Status VerifyPlacement(const VolumeGroup& group, const LogicalVolume& lv, const Placement& plan) {
  if (const Extents made = layout::LogicalExtents(lv); made != plan.logical_extents) {
    return Corrupt(
        lv, fmt::format("planned with {} extents, LVM made {}", plan.logical_extents.value, made.value));
  }
  QUARRY_ASSIGN(const std::vector<layout::LegExtents> legs, layout::ReadLegs(group, lv));
  if (legs.size() != plan.legs.size()) {
    return Corrupt(lv, fmt::format("planned with {} legs, LVM made {}", plan.legs.size(), legs.size()));
  }
  for (size_t i = 0; i < legs.size(); ++i) {
    const Leg& leg = plan.legs[i];
    // A growth is compared by the extents added at the end, a create by all extents.
    std::vector<PhysicalRange> made = legs[i].data;
    if (plan.existing.value != 0) {
      const uint64_t count = layout::SumOf(made);
      made = WithoutFirst(made, count - std::min(count, layout::SumOf(leg.data)));
    }
    std::vector<PhysicalRange> wanted = leg.data;
    if (legs.size() == 1) {
      made = Sorted(std::move(made));
      wanted = Sorted(std::move(wanted));
    }
    QUARRY_TRY(Compare(group, lv, fmt::format("leg {}", i), Joined(wanted), Joined(made)));
    if (plan.existing.value == 0) {
      QUARRY_TRY(Compare(group, lv, fmt::format("metadata of leg {}", i), Joined(leg.metadata),
                         Joined(legs[i].metadata)));
    }
  }
  if (const std::optional<std::string> shared = SharedPv(group, lv); shared.has_value()) {
    return Corrupt(lv, fmt::format("two legs share disk {}", *shared));
  }
  return Ok();
}

}  // namespace quarry::lvm
