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
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

enum class VolumeType { kLinear, kStriped, kRaid0, kRaid1, kRaid4, kRaid5, kRaid6, kRaid10 };

// "linear", "raid5", …: the words of the `type` parameter, and LVM's --type argument.
std::string_view TypeName(VolumeType type);
// kInvalidArgument listing the words there are.
Result<VolumeType> ParseVolumeType(std::string_view word);

// What a volume is made of. Valid by construction: made by Geometry::Make only.
struct GeometryRequest {
  VolumeType type = VolumeType::kLinear;
  uint32_t stripes = 0;  // data stripes; 0: the least the type allows
  uint32_t mirrors = 0;  // copies beyond the first, raid1 and raid10; 0: 1
  Bytes stripe_size;     // 0: 64 KiB where the type has stripes
  Bytes region_size;     // 0: 2 MiB (never less than the stripe size) where the type has regions
  bool integrity = false;
};

class Geometry {
 public:
  // kInvalidArgument naming the parameter ("stripes", "mirrors", "stripesize", "regionsize", "integrity") and
  // the values it may have: a type without stripes given stripes, fewer than it allows, sizes that are no
  // power of two, … The limits are those of lvcreate (tools/lvcreate.c) and dm-raid. integrity is always
  // refused: where LVM would put its checksums cannot be planned (docs/capacity.md).
  static Result<Geometry> Make(const GeometryRequest& request);

  VolumeType type() const { return type_; }
  // D: legs that hold data of their own. 1 for linear and raid1.
  uint32_t data_legs() const { return data_legs_; }
  // N: legs in all, each on a PV of its own. 1 for linear.
  uint32_t legs() const { return legs_; }
  uint32_t mirrors() const { return mirrors_; }
  // 0 where the type has none.
  Bytes stripe_size() const { return stripe_size_; }
  // 0 where the type has none. LVM halves it for a volume that is smaller and doubles it beyond 2^21 regions.
  Bytes region_size() const { return region_size_; }
  // False: Make() refuses true.
  bool integrity() const { return false; }
  // raid1/4/5/6/10 keep a metadata sub-volume per leg; linear, striped and raid0 do not.
  bool has_metadata() const;
  // "raid5 with 3 stripes": for messages.
  std::string Describe() const;

 private:
  Geometry() = default;
  VolumeType type_ = VolumeType::kLinear;
  uint32_t data_legs_ = 1;
  uint32_t legs_ = 1;
  uint32_t mirrors_ = 0;
  Bytes stripe_size_;
  Bytes region_size_;
};

// Whether a group with extents of this size can hold such volumes at all. kOutOfRange: the stripe size does
// not divide the extent size, or a type with metadata on extents below kMinRaidExtent.
Status CheckExtentSize(const Geometry& geometry, Bytes extent_size);

// From this extent size on a leg's metadata sub-volume is one extent, however large the leg grows: 8 KiB and
// one bit for each of at most 2^21 regions. LVM sizes it at creation and never extends it.
inline constexpr Bytes kMinRaidExtent{512 * kKiB.value};
inline constexpr uint64_t kMetadataExtents = 1;

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

// Size that a request becomes: rounded up to whole extents and to a multiple of data_legs extents. At least
// one granule.
Extents RoundUp(const Geometry& geometry, Bytes size, Bytes extent_size);
// Smallest step between two possible sizes.
Bytes Granule(const Geometry& geometry, Bytes extent_size);

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
