// Properties of placement for every group: the promises of src/lvm/layout.h and docs/capacity.md.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/property/layout_generators.h"

namespace quarry::lvm {
namespace {

using testing::AnyGeometry;
using testing::AnyGroup;
using testing::Apply;
using testing::ExpectSound;
using testing::MakeGeometry;
using testing::Picture;
using testing::RoomyGroup;

// Uses gtest expectations inside a property: their failure must fail, and shrink, the property.
void RequireSound(const FreeSpace& space, const Geometry& geometry, const Placement& plan) {
  ExpectSound(space, geometry, plan);
  RC_ASSERT(!::testing::Test::HasFailure());
}

FreeSpace AnySpaceOf(const VolumeGroup& group) {
  FreeSpace space = FreeSpaceOf(group);
  space.reserve = {*rc::gen::weightedOneOf<uint64_t>(
      {{3, rc::gen::just<uint64_t>(0)}, {1, rc::gen::inRange<uint64_t>(0, 30)}})};
  space.linear_may_span = *rc::gen::arbitrary<bool>();
  return space;
}

RC_GTEST_PROP(LayoutProperty, TheMaximumCanBePlacedAndOneGranuleMoreCannot, ()) {
  const VolumeGroup group = *AnyGroup();
  const Geometry geometry = *AnyGeometry();
  const FreeSpace space = AnySpaceOf(group);
  const Extents most = MaxExtents(space, geometry);
  RC_LOG() << Picture(group) << geometry.Describe() << ": " << most.value << "\n";
  RC_ASSERT(most.value % geometry.data_legs() == 0);
  const auto beyond = Place(space, geometry, most + Extents{geometry.data_legs()}, group);
  RC_ASSERT(!beyond.has_value());
  RC_ASSERT(beyond.error().code() == Code::kNoSpace || beyond.error().code() == Code::kOutOfRange);
  if (most.value != 0) {
    const auto plan = Place(space, geometry, most, group);
    RC_ASSERT(plan.has_value());
    RC_ASSERT(plan->logical_extents == most);
    RequireSound(space, geometry, *plan);
  }
}

RC_GTEST_PROP(LayoutProperty, EverySizeBelowTheMaximumCanBePlacedAndIsMadeAsPlanned, ()) {
  VolumeGroup group = *RoomyGroup();
  const Geometry geometry = *AnyGeometry();
  const FreeSpace space = FreeSpaceOf(group);
  const uint64_t granules = MaxExtents(space, geometry).value / geometry.data_legs();
  RC_ASSERT(granules > 0);
  const Extents size{*rc::gen::inRange<uint64_t>(1, granules + 1) * geometry.data_legs()};
  const auto plan = Place(space, geometry, size, group);
  RC_ASSERT(plan.has_value());
  RequireSound(space, geometry, *plan);
  Apply(group, geometry, "v", *plan);
  RC_ASSERT(!::testing::Test::HasFailure());
  RC_ASSERT(VerifyPlacement(group, *group.FindLv("v"), *plan).has_value());
}

RC_GTEST_PROP(LayoutProperty, PlacementIsDeterministic, ()) {
  const VolumeGroup group = *RoomyGroup();
  const Geometry geometry = *AnyGeometry();
  const Extents most = MaxExtents(FreeSpaceOf(group), geometry);
  RC_ASSERT(most.value > 0);
  const auto one = Place(FreeSpaceOf(group), geometry, most, group);
  const auto two = Place(FreeSpaceOf(group), geometry, most, group);
  RC_ASSERT(one->steps.size() == two->steps.size());
  for (size_t i = 0; i < one->steps.size(); ++i) {
    RC_ASSERT(one->steps[i].pv_arguments == two->steps[i].pv_arguments);
  }
}

// With any disks missing, each new leg is placed on a disk with enough space and without another leg.
RC_GTEST_PROP(LayoutProperty, MissingLegsGetDisksOfTheirOwn, ()) {
  VolumeGroup group = *RoomyGroup();
  const Geometry geometry =
      *rc::gen::suchThat(AnyGeometry(), [](const Geometry& g) { return g.has_metadata(); });
  const uint64_t granules = MaxExtents(FreeSpaceOf(group), geometry).value / geometry.data_legs();
  RC_ASSERT(granules > 0);
  const uint64_t per_leg = *rc::gen::inRange<uint64_t>(1, granules + 1);
  const Extents size{per_leg * geometry.data_legs()};
  Apply(group, geometry, "v", *Place(FreeSpaceOf(group), geometry, size, group));
  const LogicalVolume& lv = *group.FindLv("v");
  std::set<std::string> kept;
  size_t lost = 0;
  for (PhysicalVolume& pv : group.pvs) {
    pv.missing = *rc::gen::weightedElement<bool>({{1, true}, {2, false}});
  }
  for (const auto& leg : LegPvs(group, lv)) {
    const bool gone = std::ranges::any_of(leg, [&](const auto& uuid) { return group.FindPv(uuid)->missing; });
    lost += gone ? 1 : 0;
    kept.insert(leg.begin(), gone ? leg.begin() : leg.end());
  }
  const FreeSpace space = FreeSpaceOf(group);
  const auto placed = PlaceLegs(space, geometry, group, lv, LostLegs(group, lv));
  if (!placed.has_value()) {
    RC_ASSERT(placed.error().code() == (lost == 0 ? Code::kNotFound : Code::kNoSpace));
    size_t offers = 0;
    for (const FreePv& pv : space.pvs) {
      offers += !kept.contains(pv.uuid) && std::ranges::any_of(pv.free, [&](const ExtentRange& run) {
        return run.count.value >= per_leg + kMetadataExtents;
      });
    }
    RC_ASSERT(lost == 0 || offers < lost);
    return;
  }
  RC_ASSERT(placed->legs.size() == lost && placed->pv_arguments.size() == lost);
  std::set<std::string> used;
  for (const std::string& argument : placed->pv_arguments) {
    const size_t colon = argument.rfind(':');
    const size_t dash = argument.rfind('-');
    const uint64_t first = std::stoull(argument.substr(colon + 1));
    const uint64_t last = std::stoull(argument.substr(dash + 1));
    RC_ASSERT(last - first + 1 == per_leg + kMetadataExtents);
    const auto pv = std::ranges::find(space.pvs, argument.substr(0, colon), &FreePv::device);
    RC_ASSERT(pv != space.pvs.end());
    RC_ASSERT(std::ranges::any_of(pv->free, [&](const ExtentRange& run) {
      return run.first.value <= first && last < run.end().value;
    }));
    RC_ASSERT(!kept.contains(pv->uuid));
    RC_ASSERT(used.insert(pv->uuid).second);
  }
}

// From any evacuated disk, every extent moves once, to a free extent of another disk, and no leg moves to a
// disk that has another leg.
RC_GTEST_PROP(LayoutProperty, EvacuationMovesToFreeExtentsAndLegsStayApart, ()) {
  VolumeGroup group = *RoomyGroup();
  const Geometry geometry = *AnyGeometry();
  const uint64_t granules = MaxExtents(FreeSpaceOf(group), geometry).value / geometry.data_legs();
  RC_ASSERT(granules > 0);
  const Extents size{*rc::gen::inRange<uint64_t>(1, granules + 1) * geometry.data_legs()};
  Apply(group, geometry, "v", *Place(FreeSpaceOf(group), geometry, size, group));
  const LogicalVolume& lv = *group.FindLv("v");
  const auto legs = ExtentsByLeg(group, lv);
  const std::string leaving = legs[*rc::gen::inRange<size_t>(0, legs.size())].front().pv_uuid;
  const auto moves = PlaceMoves(FreeSpaceOf(group), group, leaving, {&lv});
  std::set<uint64_t> there;
  std::set<std::string> others;  // PVs of legs that stay
  for (const auto& leg : legs) {
    const bool leaves = std::ranges::any_of(leg, [&](const auto& r) { return r.pv_uuid == leaving; });
    for (const PhysicalRange& range : leg) {
      for (Extents at = range.range.first; range.pv_uuid == leaving && at < range.range.end(); at += {1}) {
        there.insert(at.value);
      }
      if (!leaves) {
        others.insert(range.pv_uuid);
      }
    }
  }
  if (!moves.has_value()) {
    RC_ASSERT(moves.error().code() == Code::kNoSpace);
    for (const PhysicalVolume& pv : group.pvs) {
      uint64_t room = 0;
      for (const ExtentRange& run : pv.free) {
        room += run.count.value;
      }
      RC_ASSERT(pv.uuid == leaving || others.contains(pv.uuid) || room < there.size());
    }
    return;
  }
  std::set<std::pair<std::string, uint64_t>> taken;
  for (const ExtentMove& move : *moves) {
    RC_ASSERT(move.name == "v" && move.from_uuid == leaving && move.to_uuid != leaving);
    RC_ASSERT(!others.contains(move.to_uuid));
    RC_ASSERT(move.from.size() == move.to.size() && (move.whole || move.from.size() == 1));
    for (size_t i = 0; i < move.from.size(); ++i) {
      RC_ASSERT(move.from[i].count == move.to[i].count);
      for (Extents at = move.from[i].first; at < move.from[i].end(); at += {1}) {
        RC_ASSERT(there.erase(at.value) == 1U);
      }
      RC_ASSERT(std::ranges::any_of(group.FindPv(move.to_uuid)->free, [&](const ExtentRange& run) {
        return run.first <= move.to[i].first && move.to[i].end() <= run.end();
      }));
      for (Extents at = move.to[i].first; at < move.to[i].end(); at += {1}) {
        RC_ASSERT(taken.insert({move.to_uuid, at.value}).second);
      }
    }
  }
  RC_ASSERT(there.empty());
}

RC_GTEST_PROP(LayoutProperty, FreeingExtentsNeverLowersAMaximum, ()) {
  VolumeGroup group = *AnyGroup();
  const Geometry geometry = *AnyGeometry();
  const FreeSpace before = FreeSpaceOf(group);
  const size_t which = *rc::gen::inRange<size_t>(0, group.pvs.size());
  PhysicalVolume& pv = group.pvs[which];
  std::vector<bool> is_free(pv.extent_count.value + 5, false);
  for (const ExtentRange& run : pv.free) {
    std::fill_n(is_free.begin() + static_cast<std::ptrdiff_t>(run.first.value), run.count.value, true);
  }
  for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
    is_free[*rc::gen::inRange<size_t>(0, is_free.size())] = true;
  }
  pv.free.clear();
  for (uint64_t e = 0; e < is_free.size(); ++e) {
    if (is_free[e] && (e == 0 || !is_free[e - 1])) {
      pv.free.push_back({{e}, {0}});
    }
    if (is_free[e]) {
      pv.free.back().count += Extents{1};
    }
  }
  RC_ASSERT(MaxExtents(FreeSpaceOf(group), geometry) >= MaxExtents(before, geometry));
}

// docs/capacity.md, "In several pieces".
RC_GTEST_PROP(LayoutProperty, WithoutMetadataTheMaximumCanBeCarvedInAnyPieces, ()) {
  VolumeGroup group = *AnyGroup();
  const Geometry geometry =
      *rc::gen::suchThat(AnyGeometry(), [](const Geometry& g) { return !g.has_metadata(); });
  const bool may_span = *rc::gen::arbitrary<bool>();
  uint64_t left = 0;
  for (int piece = 0;; ++piece) {
    FreeSpace space = FreeSpaceOf(group);
    space.linear_may_span = may_span;
    const Extents most = MaxExtents(space, geometry);
    RC_ASSERT(most.value >= left);
    if (most.value == 0) {
      break;
    }
    const uint64_t granules = (piece == 0 ? most.value : left) / geometry.data_legs();
    if (granules == 0) {
      break;
    }
    const Extents size{*rc::gen::inRange<uint64_t>(1, granules + 1) * geometry.data_legs()};
    Apply(group, geometry, "v" + std::to_string(piece), *Place(space, geometry, size, group));
    left = granules * geometry.data_legs() - size.value;
  }
}

RC_GTEST_PROP(LayoutProperty, WithMetadataEachFurtherPieceCostsAnExtentPerLeg, ()) {
  VolumeGroup group = *RoomyGroup();
  const Geometry geometry =
      *rc::gen::suchThat(AnyGeometry(), [](const Geometry& g) { return g.has_metadata(); });
  const uint64_t legs = geometry.data_legs();
  const uint64_t granules = MaxExtents(FreeSpaceOf(group), geometry).value / legs;
  RC_ASSERT(granules > 1);
  const uint64_t first = *rc::gen::inRange<uint64_t>(1, granules);
  Apply(group, geometry, "v", *Place(FreeSpaceOf(group), geometry, {first * legs}, group));
  const uint64_t rest = MaxExtents(FreeSpaceOf(group), geometry).value / legs;
  const bool scattered = std::ranges::any_of(group.pvs, [](const PhysicalVolume& pv) {
    return std::ranges::all_of(pv.free, [](const ExtentRange& run) { return run.count.value == 1; });
  });
  RC_ASSERT(rest + first + 1 >= granules || scattered);
}

// The upper limit for the number of volumes of one size on any choice of disks: k volumes need k * N legs,
// and no disk holds more than k of them.
uint64_t CountBound(const VolumeGroup& group, const Geometry& geometry, uint64_t leg) {
  uint64_t volumes = 0;
  for (;; ++volumes) {
    uint64_t legs = 0;
    for (const PhysicalVolume& pv : group.pvs) {
      legs += std::min(volumes + 1, pv.extent_count.value / leg);
    }
    if (legs < (volumes + 1) * geometry.legs()) {
      return volumes;
    }
  }
}

RC_GTEST_PROP(LayoutProperty, WholeDisksHoldAsManyEqualVolumesAsCountingAllows, ()) {
  const auto sizes =
      *rc::gen::resize(8, rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1, 120)));
  VolumeGroup group = testing::GroupOfSizes(sizes);
  const Geometry geometry =
      *rc::gen::suchThat(AnyGeometry(), [](const Geometry& g) { return g.type() != VolumeType::kLinear; });
  const uint64_t data = *rc::gen::inRange<uint64_t>(4, 20);
  const uint64_t bound = CountBound(group, geometry, data + (geometry.has_metadata() ? kMetadataExtents : 0));
  uint64_t made = 0;
  const Extents size{data * geometry.data_legs()};
  while (MaxExtents(FreeSpaceOf(group), geometry) >= size) {
    Apply(group, geometry, "v" + std::to_string(made++), *Place(FreeSpaceOf(group), geometry, size, group));
  }
  RC_ASSERT(made == bound);
}

RC_GTEST_PROP(LayoutProperty, UnallocatableDisksAreNotUsed, ()) {
  VolumeGroup group = *AnyGroup();
  const Geometry geometry = *AnyGeometry();
  for (PhysicalVolume& pv : group.pvs) {
    pv.allocatable = *rc::gen::arbitrary<bool>();
  }
  const FreeSpace space = FreeSpaceOf(group);
  VolumeGroup without = group;
  std::erase_if(without.pvs, [](const PhysicalVolume& pv) { return !pv.allocatable; });
  const Extents most = MaxExtents(space, geometry);
  RC_ASSERT(most == MaxExtents(FreeSpaceOf(without), geometry));
  if (most.value != 0) {
    RequireSound(space, geometry, *Place(space, geometry, most, group));
  }
  group.pvs[*rc::gen::inRange<size_t>(0, group.pvs.size())].missing = true;
  RC_ASSERT(MaxExtents(FreeSpaceOf(group), geometry).value == 0);
}

RC_GTEST_PROP(LayoutProperty, AVolumeGrowsToItsMaximumAndNoGranuleFurther, ()) {
  VolumeGroup group = *RoomyGroup();
  const Geometry geometry = *AnyGeometry();
  const uint64_t legs = geometry.data_legs();
  const uint64_t granules = MaxExtents(FreeSpaceOf(group), geometry).value / legs;
  RC_ASSERT(granules > 0);
  const uint64_t at_first = *rc::gen::inRange<uint64_t>(1, granules + 1);
  Apply(group, geometry, "v", *Place(FreeSpaceOf(group), geometry, {at_first * legs}, group));
  const auto before = LegPvs(group, *group.FindLv("v"));
  for (int round = 0; round < 3; ++round) {
    const FreeSpace space = AnySpaceOf(group);
    const Extents most = MaxGrowth(space, geometry, group, *group.FindLv("v"));
    RC_LOG() << Picture(group) << geometry.Describe() << " grows by " << most.value << "\n";
    const auto beyond = PlaceGrowth(space, geometry, group, *group.FindLv("v"), most + Extents{legs});
    RC_ASSERT(!beyond.has_value());
    RC_ASSERT(beyond.error().code() == Code::kNoSpace || beyond.error().code() == Code::kOutOfRange);
    if (most.value == 0) {
      return;
    }
    const Extents more =
        round == 2 ? most : Extents{*rc::gen::inRange<uint64_t>(1, most.value / legs + 1) * legs};
    const auto plan = PlaceGrowth(space, geometry, group, *group.FindLv("v"), more);
    RC_ASSERT(plan.has_value());
    RequireSound(space, geometry, *plan);
    Apply(group, geometry, "v", *plan);
    RC_ASSERT(VerifyPlacement(group, *group.FindLv("v"), *plan).has_value());
    if (geometry.type() != VolumeType::kLinear) {
      RC_ASSERT(LegPvs(group, *group.FindLv("v")) == before);
    }
  }
}

}  // namespace
}  // namespace quarry::lvm
