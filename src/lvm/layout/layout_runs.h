// The parts that creating and growing share: the free runs of a PV, which of them a leg takes, and how the
// runs of all legs are cut into pieces that LVM can be told one by one. Internal to src/lvm/layout*.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lvm/layout.h"

namespace quarry::lvm::layout {

// Free extents that lie together, on FreeSpace::pvs[pv].
struct Run {
  size_t pv = 0;
  ExtentRange range;
  bool operator==(const Run&) const = default;
};

// What one PV offers to one leg.
struct Room {
  size_t pv = 0;
  std::vector<Run>
      longest;          // the longest runs, as many as a leg may use; longest first, then lowest extent first
  uint64_t usable = 0;  // sum of these
  uint64_t total = 0;   // of all free runs

  uint64_t LongestRun() const { return longest.empty() ? 0 : longest.front().range.count.value; }
};
Room MeasureRoom(const FreeSpace& space, size_t pv, uint64_t max_runs);
std::vector<Room> MeasureRooms(const FreeSpace& space, uint64_t max_runs);

// The `max_runs` longest runs of all these PVs together, longest first.
std::vector<Run> LongestOf(std::span<const Room> rooms, uint64_t max_runs);
uint64_t SumOf(std::span<const Run> runs);

// Runs holding exactly `need` extents: the longest first, whole, and of the last one only its beginning, so
// that no free run is ever cut in two. The last is the shortest free run of `pvs` that suffices. `longest`
// must hold at least `need` extents.
std::vector<Run> TakeRuns(const FreeSpace& space, std::span<const size_t> pvs, std::span<const Run> longest,
                          uint64_t need);

// Runs for a linear volume of `size` extents (empty if there is no room): on one PV if one has room, else on
// several.
std::vector<Run> TakeLinear(const FreeSpace& space, uint64_t size);

// One piece: a range of the same length on each leg, in leg order.
using Piece = std::vector<Run>;
// Cuts the runs of all legs (equal sums) at the ends of each other's runs. The first piece of each leg begins
// with `metadata` extents, which count as part of its range.
std::vector<Piece> CutIntoPieces(const std::vector<std::vector<Run>>& legs);

// "/dev/a:0-49:60-80", with ':' and '@' of the path escaped as lvm wants them.
std::string PvArgument(const FreePv& pv, std::span<const ExtentRange> ranges);

// A plan for exactly these runs, `existing` left at 0. Linear: one command, under policy `alloc_one` if it is
// one run. Else one list of runs per leg, equal sums, one command per piece, the first under `alloc_first`;
// `metadata` extents at the beginning of each leg are for its metadata sub-volume.
Placement LinearPlacement(const FreeSpace& space, const std::vector<Run>& runs, std::string_view alloc_one);
Placement LegPlacement(const FreeSpace& space, const Geometry& geometry,
                       const std::vector<std::vector<Run>>& legs, uint64_t metadata,
                       std::string_view alloc_first);

PhysicalRange ToPhysical(const FreeSpace& space, const Run& run);

// Free extents of all PVs less the reserve, never below 0.
uint64_t Spendable(const FreeSpace& space);

// The group without any volume: every PV whole, missing and unallocatable ones included.
FreeSpace EmptySpace(const FreeSpace& space, const VolumeGroup& group);

// "3.50 GiB (3758096384 bytes)".
std::string SizeText(Extents extents, Bytes extent_size);

// Where the extents of `lv` lie, leg by leg, in logical order. kCorrupt if the report does not hang together
// or a leg is not made of plain extents.
struct LegExtents {
  std::vector<PhysicalRange> data;
  std::vector<PhysicalRange> metadata;
};
Result<std::vector<LegExtents>> ReadLegs(const VolumeGroup& group, const LogicalVolume& lv);
// Number of extents of `lv`.
Extents LogicalExtents(const LogicalVolume& lv);

}  // namespace quarry::lvm::layout
