// What creating and growing share: the free runs of a PV, the runs that a leg takes, and how the runs of all
// legs are cut into pieces, one LVM command each. Internal to src/lvm/layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lvm/layout.h"

namespace quarry::lvm::layout {

// Adjacent free extents, on FreeSpace::pvs[pv].
struct Run {
  size_t pv = 0;
  ExtentRange range;
  bool operator==(const Run&) const = default;
};

// What one PV offers to one leg.
struct Room {
  size_t pv = 0;
  // The longest runs, as many as a leg may use. Longest first; equal lengths by lowest extent.
  std::vector<Run> longest;
  uint64_t usable = 0;  // sum of `longest`
  uint64_t total = 0;   // sum of all free runs

  uint64_t LongestRun() const { return longest.empty() ? 0 : longest.front().range.count.value; }
};
Room MeasureRoom(const FreeSpace& space, size_t pv, uint64_t max_runs);
std::vector<Room> MeasureRooms(const FreeSpace& space, uint64_t max_runs);

// The `max_runs` longest runs of all these PVs, longest first.
std::vector<Run> LongestOf(std::span<const Room> rooms, uint64_t max_runs);

// The number of extents in all of `ranges`: of ExtentRange, PhysicalRange or Run.
template <typename Range>
uint64_t SumOf(const std::vector<Range>& ranges) {
  uint64_t sum = 0;
  for (const Range& each : ranges) {
    if constexpr (std::is_same_v<Range, ExtentRange>) {
      sum += each.count.value;
    } else {
      sum += each.range.count.value;
    }
  }
  return sum;
}

// Runs that have exactly `need` extents together. All but the last are taken whole, longest first. The last
// one is the shortest free run of `pvs` that suffices, and only its beginning is taken. So no free run is cut
// in two places. `longest` must hold at least `need` extents.
std::vector<Run> TakeRuns(const FreeSpace& space, std::span<const size_t> pvs, std::span<const Run> longest,
                          uint64_t need);

// Runs for a linear volume of `size` extents: on one PV if possible, else on several. Empty if there is no
// room.
std::vector<Run> TakeLinear(const FreeSpace& space, uint64_t size);

// A range of the same length on each leg, in leg order.
using Piece = std::vector<Run>;
// Cuts the runs of all legs (equal sums) wherever a run of any leg ends. The first piece includes the legs'
// metadata extents, if there are any: they are the beginning of the first runs.
std::vector<Piece> CutIntoPieces(const std::vector<std::vector<Run>>& legs);

// "/dev/a:0-49:60-80", with ':' and '@' of the path escaped as LVM requires.
std::string PvArgument(std::string_view device, std::span<const ExtentRange> ranges);

// A plan for exactly these runs, with `existing` 0. Linear: one command, under policy `alloc_one` if there is
// one run.
//
// Other types: one list of runs per leg, equal sums, and one command per piece, the first under
// `alloc_first`. The first `metadata` extents of each leg are for its metadata sub-volume.
Placement LinearPlacement(const FreeSpace& space, const std::vector<Run>& runs, std::string_view alloc_one);
Placement LegPlacement(const FreeSpace& space, const Geometry& geometry,
                       const std::vector<std::vector<Run>>& legs, uint64_t metadata,
                       std::string_view alloc_first);

// Free extents of all PVs minus the reserve, at least 0.
uint64_t Spendable(const FreeSpace& space);

// The group as if it had no volumes: every PV is free, missing and unallocatable ones included.
FreeSpace EmptySpace(const FreeSpace& space, const VolumeGroup& group);

// "3.50 GiB (3758096384 bytes)".
std::string SizeText(Extents extents, Bytes extent_size);

struct LegExtents {
  std::vector<PhysicalRange> data;
  std::vector<PhysicalRange> metadata;
};
// The extents of each leg of `lv`, in logical order. kCorrupt if the report is inconsistent or a leg does not
// consist of plain extents.
Result<std::vector<LegExtents>> ReadLegs(const VolumeGroup& group, const LogicalVolume& lv);
// Number of extents of `lv`.
Extents LogicalExtents(const LogicalVolume& lv);

}  // namespace quarry::lvm::layout
