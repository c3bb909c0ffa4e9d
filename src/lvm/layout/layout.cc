#include "lvm/layout.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm {
namespace {

using layout::Room;
using layout::Run;

uint64_t MetadataOf(const Geometry& geometry) {
  return geometry.has_metadata() ? kMetadataExtents : 0;
}

// Extents that a leg beginning on this PV could have, metadata included. The first run must hold the metadata
// and at least one extent of data.
uint64_t LegRoom(const Room& room, uint64_t metadata) {
  return room.LongestRun() > metadata ? room.usable : 0;
}

uint64_t MaxLinear(const FreeSpace& space) {
  const std::vector<Room> rooms = layout::MeasureRooms(space, kMaxPieces);
  uint64_t most = 0;
  if (space.linear_may_span) {
    most = layout::SumOf(layout::LongestOf(rooms, kMaxPieces));
  } else {
    for (const Room& room : rooms) {
      most = std::max(most, room.usable);
    }
  }
  return std::min(most, layout::Spendable(space));
}

// Data extents per leg, for types whose legs must be on different PVs.
uint64_t MaxPerLeg(const FreeSpace& space, const Geometry& geometry) {
  const uint64_t legs = geometry.legs();
  const uint64_t metadata = MetadataOf(geometry);
  std::vector<uint64_t> room;
  for (const Room& pv : layout::MeasureRooms(space, RunsPerLeg(legs))) {
    room.push_back(LegRoom(pv, metadata));
  }
  if (room.size() < legs) {
    return 0;
  }
  const auto smallest = room.begin() + static_cast<std::ptrdiff_t>(legs - 1);
  std::ranges::nth_element(room, smallest, std::greater<>());
  const uint64_t most = std::min(*smallest, layout::Spendable(space) / legs);
  return most - std::min(most, metadata);
}

Extents MaxUnblocked(const FreeSpace& space, const Geometry& geometry) {
  if (!CheckExtentSize(geometry, space.extent_size).has_value()) {
    return {};
  }
  if (geometry.type() == VolumeType::kLinear) {
    return {MaxLinear(space)};
  }
  return {MaxPerLeg(space, geometry) * geometry.data_legs()};
}

Error NeverFits(const FreeSpace& empty, const Geometry& geometry, Extents size, Extents most) {
  if (empty.pvs.size() < geometry.legs()) {
    return {Code::kOutOfRange, fmt::format("{} needs {} disks, the group has {} in all", geometry.Describe(),
                                           geometry.legs(), empty.pvs.size())};
  }
  return {Code::kOutOfRange,
          fmt::format("{} of {}: the largest that this group could hold if it were empty is {}",
                      geometry.Describe(), layout::SizeText(size, empty.extent_size),
                      layout::SizeText(most, empty.extent_size))};
}

Error DoesNotFitNow(const FreeSpace& space, const Geometry& geometry, Extents size, Extents most) {
  const uint64_t metadata = MetadataOf(geometry);
  const std::vector<Room> rooms = layout::MeasureRooms(space, RunsPerLeg(geometry.legs()));
  const auto with_room =
      std::ranges::count_if(rooms, [&](const Room& r) { return LegRoom(r, metadata) > 0; });
  if (std::cmp_less(with_room, geometry.legs())) {
    return {Code::kNoSpace,
            fmt::format("{} needs {} disk{} with free space, the group has {}", geometry.Describe(),
                        geometry.legs(), geometry.legs() == 1 ? "" : "s", with_room)};
  }
  std::string kept;
  if (space.reserve.value != 0) {
    kept = fmt::format(", with {} kept in reserve", HumanBytes(ToBytes(space.reserve, space.extent_size)));
  }
  return {Code::kNoSpace, fmt::format("no room for {} of {}: the largest possible now is {}{}",
                                      geometry.Describe(), layout::SizeText(size, space.extent_size),
                                      layout::SizeText(most, space.extent_size), kept)};
}

// Chooses the PVs for the legs: of the PVs with a free run for a whole leg, those with the most space. If
// these PVs are too few, all PVs that can hold a leg are sorted by space. Then each window of consecutive PVs
// in that order, one PV per leg, is tried. The window whose runs are cut into the fewest pieces wins.
// Choosing by space keeps the disks equally full. That leaves the most for volumes of any width
// (docs/capacity.md), and spreads the load.
class LegChooser {
 public:
  LegChooser(const FreeSpace& space, const Geometry& geometry, uint64_t need)
      : space_(space), legs_(geometry.legs()), need_(need), metadata_(MetadataOf(geometry)) {
    rooms_ = layout::MeasureRooms(space, RunsPerLeg(legs_));
    std::ranges::stable_sort(rooms_, std::greater<>(), [&](const Room& r) { return LegRoom(r, metadata_); });
  }

  // One list of runs per leg. The caller has checked that a choice exists.
  std::vector<std::vector<Run>> Choose() const {
    std::vector<const Room*> whole;
    std::vector<const Room*> enough;
    for (const Room& room : rooms_) {
      if (room.LongestRun() >= need_) {
        whole.push_back(&room);
      }
      if (LegRoom(room, metadata_) >= need_) {
        enough.push_back(&room);
      }
    }
    return whole.size() >= legs_ ? RunsOn(std::span(whole).first(legs_)) : FewestPieces(enough);
  }

 private:
  std::vector<std::vector<Run>> RunsOn(std::span<const Room* const> chosen) const {
    std::vector<std::vector<Run>> legs;
    for (const Room* room : chosen) {
      legs.push_back(layout::TakeRuns(space_, std::span(&room->pv, 1), room->longest, need_));
    }
    return legs;
  }

  std::vector<std::vector<Run>> FewestPieces(const std::vector<const Room*>& candidates) const {
    std::vector<std::vector<Run>> best;
    size_t fewest = SIZE_MAX;
    for (size_t from = 0; from + legs_ <= candidates.size(); ++from) {
      std::vector<std::vector<Run>> legs = RunsOn(std::span(candidates).subspan(from, legs_));
      const size_t pieces = layout::CutIntoPieces(legs).size();
      if (pieces < fewest) {
        fewest = pieces;
        best = std::move(legs);
      }
    }
    return best;
  }

  const FreeSpace& space_;
  size_t legs_;
  uint64_t need_;
  uint64_t metadata_;
  std::vector<Room> rooms_;  // most free room first
};

}  // namespace

FreeSpace FreeSpaceOf(const VolumeGroup& group) {
  FreeSpace space;
  space.extent_size = group.extent_size;
  for (const PhysicalVolume& pv : group.pvs) {
    if (pv.missing) {
      space.blocked = fmt::format(
          "disk {} of group {} is missing: LVM creates and extends nothing in the group until it is back, or "
          "until it is given up with vgreduce --removemissing",
          pv.device.empty() ? pv.uuid : pv.device, group.name);
    } else if (pv.allocatable) {
      space.pvs.push_back({pv.uuid, pv.device, pv.free});
    }
  }
  if (group.exported) {
    space.blocked = fmt::format("group {} is exported: vgimport makes it usable", group.name);
  }
  return space;
}

Extents MaxExtents(const FreeSpace& space, const Geometry& geometry) {
  return space.blocked.empty() ? MaxUnblocked(space, geometry) : Extents{};
}

Result<Placement> Place(const FreeSpace& space, const Geometry& geometry, Extents size,
                        const VolumeGroup& group) {
  QUARRY_TRY(CheckExtentSize(geometry, space.extent_size));
  if (size.value == 0 || size.value % geometry.data_legs() != 0) {
    return Error(Code::kInvalidArgument, fmt::format("{} cannot have {} extents: it takes multiples of {}",
                                                     geometry.Describe(), size.value, geometry.data_legs()));
  }
  const FreeSpace empty = layout::EmptySpace(space, group);
  if (const Extents most = MaxUnblocked(empty, geometry); size > most) {
    return NeverFits(empty, geometry, size, most);
  }
  if (!space.blocked.empty()) {
    return Error(Code::kPrecondition, space.blocked);
  }
  if (const Extents most = MaxUnblocked(space, geometry); size > most) {
    return DoesNotFitNow(space, geometry, size, most);
  }
  if (geometry.type() == VolumeType::kLinear) {
    return layout::LinearPlacement(space, layout::TakeLinear(space, size.value), "contiguous");
  }
  const uint64_t metadata = MetadataOf(geometry);
  const LegChooser chooser(space, geometry, size.value / geometry.data_legs() + metadata);
  return layout::LegPlacement(space, geometry, chooser.Choose(), metadata, "contiguous");
}

}  // namespace quarry::lvm
