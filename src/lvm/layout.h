// Where a volume's extents go: LVM's allocation rules as a pure function. Capacity and placement use the same
// code, so every promised size can be created. docs/capacity.md explains the rules.
//
// lvm2's own allocator may put two legs of one raid volume on one disk (2.03.16 does, silently). So nothing
// is left to it: every command names PVs and extent ranges.
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

// The most pieces into which one create or one growth is cut. A piece is one range of equal length on each
// leg; if there are several legs, each piece is one LVM command. A leg uses at most RunsPerLeg() free runs,
// so the limit holds wherever the runs of the legs end.
inline constexpr uint64_t kMaxPieces = 64;
constexpr uint64_t RunsPerLeg(uint64_t legs) {
  return 1 + (kMaxPieces - 1) / legs;
}

// The free extents of one PV. Leave a PV out of `pvs` to exclude it.
struct FreePv {
  std::string uuid;
  std::string device;
  std::vector<ExtentRange> free;  // ascending, disjoint, never adjacent, none empty
};
struct FreeSpace {
  Bytes extent_size;
  std::vector<FreePv> pvs;
  Extents reserve;              // kept free in the group as a whole, never promised
  bool linear_may_span = true;  // whether one linear volume may lie on several PVs
  // If not empty, nothing can be created, and this is the reason (a PV is missing, …).
  std::string blocked;
};
// The free space of a snapshot on PVs that are present and allocatable. `blocked` is set when a PV is missing
// or the group is exported.
FreeSpace FreeSpaceOf(const VolumeGroup& group);

// One LVM command of a placement: a create, or an extend of the created volume.
struct PlacementStep {
  Extents logical_extents;                // -l of the create; -l + of an extend
  std::string alloc;                      // --alloc policy: contiguous, cling, normal
  std::vector<std::string> pv_arguments;  // "/dev/a:0-49", in leg order; ':' and '@' of a path are escaped
};

struct Leg {
  std::string pv_uuid;                  // the leg's first PV; only linear has more than one
  std::vector<PhysicalRange> data;      // in logical order; for linear LVM chooses the order
  std::vector<PhysicalRange> metadata;  // empty for types without metadata, and in a growth
};

// Extents to add: all of a new volume, or a growth.
struct Placement {
  Extents existing;         // size of the volume before; 0 for a create
  Extents logical_extents;  // size of the volume after; data_legs divides the difference
  std::vector<Leg> legs;
  // For a create: the first step creates, the others extend. A crash in between leaves a smaller volume.
  std::vector<PlacementStep> steps;
};

// The largest volume of this geometry that Place() can place now, in extents; 0 if none, or if `space` is
// blocked. Place() succeeds for this size, unless it is 0, and for every smaller multiple of data_legs. It
// fails for one granule more. To learn the reason for a 0, call Place() with one granule.
Extents MaxExtents(const FreeSpace& space, const Geometry& geometry);

// Where to put a volume of exactly `size` extents (as RoundUp returns it). `group` is the group that `space`
// was made from. kNoSpace: not possible now; the message says what is missing ("raid5 with 3 stripes needs 4
// disks with free space, the group has 3"). kOutOfRange: never possible, even if the group were empty and all
// its disks present. kPrecondition: space.blocked. kInvalidArgument: `size` is 0 or not a multiple of
// data_legs.
Result<Placement> Place(const FreeSpace& space, const Geometry& geometry, Extents size,
                        const VolumeGroup& group);

// Growth. A leg grows only on the PV where it begins. A linear volume may grow onto other PVs, if
// linear_may_span. MaxGrowth: the most extents by which `lv` can grow; 0 if PlaceGrowth fails for every
// `more`. PlaceGrowth: the steps (all extends) for growing by exactly `more`. Errors as for Place(). Also
// kPrecondition: two legs of `lv` share a PV, or `lv` does not have this geometry.
Extents MaxGrowth(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                  const LogicalVolume& lv);
Result<Placement> PlaceGrowth(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                              const LogicalVolume& lv, Extents more);

// Places for new legs of a raid volume, which replace others.
struct LegReplacement {
  std::vector<size_t> legs;               // indices of the legs to replace, ascending
  std::vector<std::string> pv_arguments;  // one range for each leg
};
// `which`: one entry per leg (LostLegs, LegsOn). Each new leg gets a PV that holds no other leg of the
// volume, and takes the shortest free run that suffices. It must be a single run, because LVM places the leg
// under the allocation policy stored with the volume: `contiguous` for raid volumes that Quarry made. `space`
// is the group's; its `blocked` is ignored. kNotFound: `which` names no leg. kNoSpace: the message says what
// is missing. kPrecondition: not a raid volume with metadata.
Result<LegReplacement> PlaceLegs(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                                 const LogicalVolume& lv, const std::vector<bool>& which);

// Extents to move to another PV.
struct ExtentMove {
  std::string name;  // of the volume that has the extents, not of a leg
  std::string from_uuid;
  std::vector<ExtentRange> from;
  std::string to_uuid;
  std::vector<ExtentRange> to;  // the same number of extents
  // True for a raid leg: pvmove moves a leg only as a whole, and after a partial move it refuses the rest.
  // Any other move takes one run to one run, and may be split into several moves.
  bool whole = false;
};
// Finds targets for all extents that `volumes` have on the PV `pv_uuid`. `volumes` must not contain hidden
// legs: a leg's extents count as its volume's. The targets are PVs with no other leg of the same volume. A
// leg's extents stay together where possible, and always if the volume has several legs. The moves are in the
// order in which they can be done. If some moves are done and the rest is planned again, the rest goes to the
// same places. `space` is the group's; its `blocked` is ignored. kNoSpace: the message says how much is
// missing.
Result<std::vector<ExtentMove>> PlaceMoves(const FreeSpace& space, const VolumeGroup& group,
                                           const std::string& pv_uuid,
                                           const std::vector<const LogicalVolume*>& volumes);
// "/dev/a:0-49:60-80", escaped as LVM requires. The PV must be in the group.
std::string PvRangesArgument(const VolumeGroup& group, const std::string& pv_uuid,
                             const std::vector<ExtentRange>& ranges);

// The geometry of a volume that Quarry did not make. kUnsupported: Quarry makes no volumes of this kind, or
// its legs are unequal or share disks. The message continues after the volume's name ("is of type thin, …").
Result<Geometry> GeometryOf(const VolumeGroup& group, const LogicalVolume& lv);

// How a volume lies now, as a plan without steps. kCorrupt: as VerifyPlacement.
Result<Placement> PlacementOf(const VolumeGroup& group, const LogicalVolume& lv);

// Compares what LVM made with the plan: same size, same extents in the same legs, no two legs on one PV.
// kCorrupt with the first difference.
Status VerifyPlacement(const VolumeGroup& group, const LogicalVolume& lv, const Placement& plan);

}  // namespace quarry::lvm
