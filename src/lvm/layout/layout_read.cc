// Reads a volume leg by leg from LVM's report: what it is made of, and whether it is as planned.
#include <algorithm>
#include <optional>
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
      return Corrupt(
          *lv, fmt::format("its segment of type {} is not one range of extents on one disk", segment.type));
    }
    ranges.push_back({segment.areas.front().pv_uuid, segment.areas.front().range});
  }
  return ranges;
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

Error Not(std::string why) {
  return {Code::kUnsupported, std::move(why)};
}

// LVM's segment type as a volume type. Other parity layouts ("raid5_n", "raid6_la_6") are steps of a
// conversion. LVM neither grows nor repairs them like Quarry's types.
Result<VolumeType> TypeOf(std::string_view reported) {
  if (reported == "raid5_ls") {
    return VolumeType::kRaid5;
  }
  if (reported == "raid6_zr") {
    return VolumeType::kRaid6;
  }
  auto type = ParseVolumeType(reported);
  if (!type.has_value()) {
    return Not(fmt::format("is of type {}, which Quarry does not serve", reported));
  }
  return *type;
}

// Checks that each leg has exactly its share of the volume's extents, and metadata exactly if its type has
// metadata. Anything else is a layout that Quarry does not make.
Status CheckLegs(const LogicalVolume& lv, const Geometry& geometry,
                 const std::vector<layout::LegExtents>& legs) {
  if (legs.size() != geometry.legs()) {
    return Not(
        fmt::format("has {} legs, where {} has {}", legs.size(), geometry.Describe(), geometry.legs()));
  }
  const uint64_t per_leg = layout::LogicalExtents(lv).value / geometry.data_legs();
  for (const layout::LegExtents& leg : legs) {
    if (layout::SumOf(leg.data) != per_leg || leg.metadata.empty() == geometry.has_metadata()) {
      return Not(fmt::format("does not have the legs of {}", geometry.Describe()));
    }
  }
  return Ok();
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
        return Corrupt(lv, "it has several segments, although its legs are sub-volumes");
      }
      QUARRY_ASSIGN(legs[i].data, PlainRanges(group, area.lv_name));
      if (const std::string metadata = MetadataLvName(area.lv_name); group.FindLv(metadata) != nullptr) {
        QUARRY_ASSIGN(legs[i].metadata, PlainRanges(group, metadata));
      }
    }
  }
  return legs;
}

}  // namespace layout

Result<Geometry> GeometryOf(const VolumeGroup& group, const LogicalVolume& lv) {
  if (lv.segments.empty()) {
    return Not("has no segments");
  }
  const Segment& first = lv.segments.front();
  QUARRY_ASSIGN(const VolumeType type, TypeOf(first.type));
  for (const Segment& segment : lv.segments) {
    if (segment.type != first.type || segment.data_stripes != first.data_stripes ||
        segment.stripe_size != first.stripe_size || segment.areas.size() != first.areas.size()) {
      return Not("does not have the same layout throughout");
    }
  }
  const bool striped = type != VolumeType::kLinear && type != VolumeType::kRaid1;
  GeometryRequest request{.type = type};
  if (striped) {
    request.stripes = first.data_stripes;
    request.stripe_size = first.stripe_size;
  }
  if (type == VolumeType::kRaid1) {
    request.mirrors = static_cast<uint32_t>(std::max<size_t>(first.areas.size(), 1) - 1);
    if (request.mirrors == 0) {
      return Not("is a raid1 of a single leg");
    }
  }
  auto geometry = Geometry::Make(request);
  if (!geometry.has_value()) {
    return Not(fmt::format("has a layout that Quarry does not make: {}", geometry.error().message()));
  }
  auto legs = layout::ReadLegs(group, lv);
  if (!legs.has_value()) {
    return Not(fmt::format("has a layout that Quarry does not make: {}", legs.error().message()));
  }
  QUARRY_TRY(CheckLegs(lv, *geometry, *legs));
  if (const std::optional<std::string> shared = SharedPv(group, lv); legs->size() > 1 && shared.has_value()) {
    const PhysicalVolume* pv = group.FindPv(*shared);
    return Not(fmt::format("has two legs on disk {}: move one away first (pvmove)",
                           pv == nullptr || pv->device.empty() ? *shared : pv->device));
  }
  return geometry;
}

Result<Placement> PlacementOf(const VolumeGroup& group, const LogicalVolume& lv) {
  QUARRY_ASSIGN(std::vector<layout::LegExtents> legs, layout::ReadLegs(group, lv));
  Placement placement{.existing = {}, .logical_extents = layout::LogicalExtents(lv), .legs = {}, .steps = {}};
  for (layout::LegExtents& leg : legs) {
    const std::string first = leg.data.empty() ? "" : leg.data.front().pv_uuid;
    placement.legs.push_back({first, std::move(leg.data), std::move(leg.metadata)});
  }
  QUARRY_TRY(VerifyPlacement(group, lv, placement));
  return placement;
}

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
      std::ranges::sort(made);
      std::ranges::sort(wanted);
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
