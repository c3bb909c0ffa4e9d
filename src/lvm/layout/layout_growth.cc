#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm {
namespace {

using layout::LegExtents;
using layout::Room;
using layout::Run;

// LVM reports "raid5" as raid5_ls and "raid6" as raid6_zr, the types that lvcreate makes of them. Linear
// stays linear.
bool IsOfType(const LogicalVolume& lv, VolumeType type) {
  const std::string_view name = TypeName(type);
  return lv.segment_type == name || lv.segment_type.starts_with(fmt::format("{}_", name));
}

Result<std::vector<LegExtents>> LegsToGrow(const FreeSpace& space, const Geometry& geometry,
                                           const VolumeGroup& group, const LogicalVolume& lv) {
  QUARRY_TRY(CheckExtentSize(geometry, space.extent_size));
  auto legs = layout::ReadLegs(group, lv);
  if (!legs.has_value()) {
    return std::move(legs.error()).As(Code::kPrecondition);
  }
  if (!IsOfType(lv, geometry.type()) || legs->size() != geometry.legs()) {
    return Error(Code::kPrecondition, fmt::format("logical volume {} is {} with {} legs, not {}", lv.name,
                                                  lv.segment_type, legs->size(), geometry.Describe()));
  }
  for (const LegExtents& leg : *legs) {
    if (leg.data.empty()) {
      return Error(Code::kPrecondition, fmt::format("logical volume {} has a leg without extents", lv.name));
    }
  }
  if (const std::optional<std::string> shared = SharedPv(group, lv); legs->size() > 1 && shared.has_value()) {
    return Error(Code::kPrecondition,
                 fmt::format("two legs of logical volume {} share disk {}: move one before it grows", lv.name,
                             *shared));
  }
  return legs;
}

// The free run directly behind the leg, if it is long enough. The leg then remains one segment.
std::optional<Run> RunAfter(const FreeSpace& space, const LegExtents& leg, uint64_t need) {
  const PhysicalRange& last = leg.data.back();
  for (size_t pv = 0; pv < space.pvs.size(); ++pv) {
    if (space.pvs[pv].uuid != last.pv_uuid) {
      continue;
    }
    for (const ExtentRange& range : space.pvs[pv].free) {
      if (range.first == last.range.end() && range.count.value >= need) {
        return Run{pv, {range.first, {need}}};
      }
    }
  }
  return std::nullopt;
}

// Free room on the PV where the leg begins. LVM's cling policy considers no other PV (_for_each_pv stops at
// the first segment). The room is empty if the PV takes no new extents.
Room RoomOf(const FreeSpace& space, const LegExtents& leg, uint64_t max_runs) {
  for (size_t pv = 0; pv < space.pvs.size(); ++pv) {
    if (space.pvs[pv].uuid == leg.data.front().pv_uuid) {
      return layout::MeasureRoom(space, pv, max_runs);
    }
  }
  return {};
}

// The free space on the PVs that already hold the volume.
FreeSpace OwnSpace(const FreeSpace& space, const LegExtents& leg) {
  FreeSpace own = space;
  std::erase_if(own.pvs, [&](const FreePv& pv) {
    return std::ranges::find(leg.data, pv.uuid, &PhysicalRange::pv_uuid) == leg.data.end();
  });
  return own;
}

Extents MaxFor(const FreeSpace& space, const Geometry& geometry, const std::vector<LegExtents>& legs) {
  if (geometry.type() == VolumeType::kLinear) {
    const FreeSpace own = space.linear_may_span ? space : OwnSpace(space, legs.front());
    const std::vector<Room> rooms = layout::MeasureRooms(own, kMaxPieces);
    return {std::min(layout::SumOf(layout::LongestOf(rooms, kMaxPieces)), layout::Spendable(space))};
  }
  uint64_t most = layout::Spendable(space) / legs.size();
  for (const LegExtents& leg : legs) {
    most = std::min(most, RoomOf(space, leg, RunsPerLeg(legs.size())).usable);
  }
  return {most * geometry.data_legs()};
}

// The group as if it had no other volume, with all free space of a PV as one run. Used only for the answer
// "never possible". So the result may be too large, but never too small: a growth that becomes possible once
// other volumes are deleted must not be called impossible.
FreeSpace EmptyBut(const FreeSpace& space, const VolumeGroup& group, const LogicalVolume& lv) {
  FreeSpace empty = layout::EmptySpace(space, group);
  for (const PhysicalRange& used : PhysicalExtents(group, lv)) {
    for (FreePv& pv : empty.pvs) {
      if (pv.uuid == used.pv_uuid && !pv.free.empty()) {
        Extents& count = pv.free.front().count;
        count = count - std::min(count, used.range.count);
      }
    }
  }
  return empty;
}

Error NoRoomToGrow(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                   const std::vector<LegExtents>& legs, Extents more, Extents most) {
  std::string message =
      fmt::format("no room to grow {} by {}: the most possible now is {}", geometry.Describe(),
                  layout::SizeText(more, space.extent_size), layout::SizeText(most, space.extent_size));
  const uint64_t per_leg = more.value / geometry.data_legs();
  for (size_t i = 0; legs.size() > 1 && i < legs.size(); ++i) {
    const Room room = RoomOf(space, legs[i], RunsPerLeg(legs.size()));
    if (room.usable < per_leg) {
      const PhysicalVolume* pv = group.FindPv(legs[i].data.front().pv_uuid);
      message += fmt::format("; leg {} needs {} extents on disk {}, which has {}", i, per_leg,
                             pv == nullptr ? legs[i].data.front().pv_uuid : pv->device, room.usable);
      break;
    }
  }
  return {Code::kNoSpace, std::move(message)};
}

Placement GrowLinear(const FreeSpace& space, const LegExtents& leg, uint64_t more) {
  std::vector<Run> runs;
  if (const std::optional<Run> next = RunAfter(space, leg, more); next.has_value()) {
    runs = {*next};
  } else {
    const FreeSpace own = OwnSpace(space, leg);
    runs = layout::TakeLinear(own, more);
    if (!runs.empty()) {
      return layout::LinearPlacement(own, runs, "normal");
    }
    runs = layout::TakeLinear(space, more);
  }
  return layout::LinearPlacement(space, runs, "normal");
}

Placement GrowLegs(const FreeSpace& space, const Geometry& geometry, const std::vector<LegExtents>& legs,
                   uint64_t more) {
  std::vector<std::vector<Run>> runs;
  for (const LegExtents& leg : legs) {
    const Room room = RoomOf(space, leg, RunsPerLeg(legs.size()));
    const std::optional<Run> next = RunAfter(space, leg, more);
    if (next.has_value() && next->pv == room.pv) {
      runs.push_back({*next});
    } else {
      runs.push_back(layout::TakeRuns(space, std::span(&room.pv, 1), room.longest, more));
    }
  }
  return layout::LegPlacement(space, geometry, runs, 0, "cling");
}

}  // namespace

Extents MaxGrowth(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                  const LogicalVolume& lv) {
  const auto legs = LegsToGrow(space, geometry, group, lv);
  return space.blocked.empty() && legs.has_value() ? MaxFor(space, geometry, *legs) : Extents{};
}

Result<Placement> PlaceGrowth(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                              const LogicalVolume& lv, Extents more) {
  QUARRY_ASSIGN(const std::vector<LegExtents> legs, LegsToGrow(space, geometry, group, lv));
  if (more.value == 0 || more.value % geometry.data_legs() != 0) {
    return Error(Code::kInvalidArgument, fmt::format("{} cannot grow by {} extents: it takes multiples of {}",
                                                     geometry.Describe(), more.value, geometry.data_legs()));
  }
  if (const Extents most = MaxFor(EmptyBut(space, group, lv), geometry, legs); more > most) {
    return Error(
        Code::kOutOfRange,
        fmt::format("growing {} by {}: the most that its disks could give if they held nothing else is {}",
                    geometry.Describe(), layout::SizeText(more, space.extent_size),
                    layout::SizeText(most, space.extent_size)));
  }
  if (!space.blocked.empty()) {
    return Error(Code::kPrecondition, space.blocked);
  }
  if (const Extents most = MaxFor(space, geometry, legs); more > most) {
    return NoRoomToGrow(space, geometry, group, legs, more, most);
  }
  Placement plan = geometry.type() == VolumeType::kLinear
                       ? GrowLinear(space, legs.front(), more.value)
                       : GrowLegs(space, geometry, legs, more.value / geometry.data_legs());
  plan.existing = layout::LogicalExtents(lv);
  plan.logical_extents += plan.existing;
  return plan;
}

}  // namespace quarry::lvm
