// Where a volume's extents go: LVM's allocation rules as a pure function. Capacity and placement come from
// the same code, so what is promised is what can be made. The rule is written out in docs/capacity.md.
//
// lvm2 left to itself may put two legs of one raid volume on one disk (2.03.16 does, silently), so nothing is
// left to it: every command names PVs and extent ranges.
//
// Values in, values out: no I/O, no state, safe from any thread, same answer for the same input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/geometry.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Most pieces that one create or one growth is cut into: each further one of a volume with several legs costs
// an LVM command. A leg uses its longest RunsPerLeg() free runs and no more, so that this is kept whatever
// the runs are.
inline constexpr uint64_t kMaxPieces = 64;
constexpr uint64_t RunsPerLeg(uint64_t legs) {
  return 1 + (kMaxPieces - 1) / legs;
}

// Free room of a group as the allocator may use it. Leave a PV out to exclude it.
struct FreePv {
  std::string uuid;
  std::string device;
  std::vector<ExtentRange> free;  // ascending, disjoint, never adjacent, none empty
};
struct FreeSpace {
  Bytes extent_size;
  std::vector<FreePv> pvs;
  Extents reserve;              // kept free in the group as a whole, out of every promise
  bool linear_may_span = true;  // whether one linear volume may lie on several PVs
  std::string blocked;  // not empty: nothing can be created at all, and this is why (a PV is missing, …)
};
// Free, allocatable, present room of a snapshot. `blocked` is set when a PV is missing or the group is
// exported.
FreeSpace FreeSpaceOf(const VolumeGroup& group);

// One LVM command of a placement: a create, or an extend of what was created.
struct PlacementStep {
  Extents logical_extents;                // -l of the create; -l + of an extend
  std::string alloc;                      // --alloc policy: contiguous, cling, normal
  std::vector<std::string> pv_arguments;  // "/dev/a:0-49", in leg order; ':' and '@' of a path come escaped
};

struct Leg {
  std::string pv_uuid;                  // first (and, but for linear, only) PV of the leg
  std::vector<PhysicalRange> data;      // in logical order; of a linear volume: LVM chooses the order
  std::vector<PhysicalRange> metadata;  // empty without metadata sub-volume, and in a growth
};

// Extents to be added: all of a new volume, or a growth.
struct Placement {
  Extents existing;         // size of the volume before: 0 for a create
  Extents logical_extents;  // size of the volume after, a multiple of data_legs more
  std::vector<Leg> legs;
  std::vector<PlacementStep> steps;  // of a create: the first creates, the rest extend. A crash in between
                                     // leaves a smaller volume
};

// Largest volume of this geometry that Place() can place now, in extents; 0 if none, or if `space` is
// blocked. Place(space, geometry, MaxExtents(space, geometry)) succeeds whenever it is not 0, so does every
// size below it that is a multiple of data_legs, and one granule more fails. To say why it is 0: the error of
// Place() for one granule.
Extents MaxExtents(const FreeSpace& space, const Geometry& geometry);

// Where to put a volume of exactly `size` extents (as RoundUp gives it). `group` is what `space` was made
// from. kNoSpace: not now, saying what is missing ("raid5 with 3 stripes needs 4 disks with free space, the
// group has 3"). kOutOfRange: never, even with the group empty and all its disks back. kPrecondition:
// space.blocked. kInvalidArgument: `size` is 0 or no multiple of data_legs.
Result<Placement> Place(const FreeSpace& space, const Geometry& geometry, Extents size,
                        const VolumeGroup& group);

// Growth: existing legs stay on the PV where they begin; new extents obey the same rules. Extents by which
// `lv` can grow at most, and the steps (all extends) for growing by exactly `more`. MaxGrowth is 0 where
// PlaceGrowth fails for any `more`. Errors as for Place(); kPrecondition also: two legs of `lv` share a PV,
// or `lv` is not made as `geometry` says.
Extents MaxGrowth(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                  const LogicalVolume& lv);
Result<Placement> PlaceGrowth(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                              const LogicalVolume& lv, Extents more);

// Where new legs for a raid volume go, in place of others.
struct LegReplacement {
  std::vector<size_t> legs;               // which, ascending
  std::vector<std::string> pv_arguments;  // one range for each of them
};
// `which`: one entry per leg (LostLegs, LegsOn). Each new leg gets a PV of its own that holds no other leg of
// the volume, in one free run that is no longer than need be: LVM places them under the policy that the
// volume was made with. `space` is that of the group, whatever it says of being blocked. kNotFound: no leg is
// asked for. kNoSpace, saying what is missing. kPrecondition: it is not a raid volume with metadata.
Result<LegReplacement> PlaceLegs(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                                 const LogicalVolume& lv, const std::vector<bool>& which);

// Extents that go to another PV, as they are.
struct ExtentMove {
  std::string name;  // of the volume whose they are, which is no leg
  std::string from_uuid;
  std::vector<ExtentRange> from;
  std::string to_uuid;
  std::vector<ExtentRange> to;  // as many extents
  // A raid leg, which pvmove moves as one: with a part of the leg there it would not let the rest follow. Any
  // other move is of one run to one run, and may be cut.
  bool whole = false;
};
// Where all that lies of `volumes`, which are no legs, on a PV goes: onto PVs that hold no other leg of
// theirs, what a leg has there together where that is possible, and always so if the volume has several; in
// the order in which it may be done. Planned anew after some of it was done, the rest goes where it would
// have gone. `space` is that of the group, whatever it says of being blocked. kNoSpace, saying by how much.
Result<std::vector<ExtentMove>> PlaceMoves(const FreeSpace& space, const VolumeGroup& group,
                                           const std::string& pv_uuid,
                                           const std::vector<const LogicalVolume*>& volumes);
// "/dev/a:0-49:60-80", escaped as LVM wants it. The PV is the group's.
std::string PvRangesArgument(const VolumeGroup& group, const std::string& pv_uuid,
                             const std::vector<ExtentRange>& ranges);

// What a volume that somebody else made is made of. kUnsupported, in words that go on after its name ("is of
// type thin, …"): not as we would make one, with or without equal legs on disks of their own.
Result<Geometry> GeometryOf(const VolumeGroup& group, const LogicalVolume& lv);

// Compares what LVM made with what was planned: same size, same extents in the same legs, no two legs on one
// PV. kCorrupt with the first difference.
Status VerifyPlacement(const VolumeGroup& group, const LogicalVolume& lv, const Placement& plan);

}  // namespace quarry::lvm
