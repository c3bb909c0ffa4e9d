#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm {
namespace {

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

// Checks that each leg is as long as its share of the volume, so that nothing is there that the report did
// not show.
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

}  // namespace quarry::lvm
