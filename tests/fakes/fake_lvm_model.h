// What LVM's commands do to a group, as pure changes of a value: part of FakeLvm.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lvm/lvm_api.h"
#include "tests/fakes/fake_lvm_alloc.h"

namespace quarry::fakes {

// nullptr if there is none.
lvm::LogicalVolume* Find(lvm::VolumeGroup& group, const std::string& name);
// Whether `part` is a leg, or a leg's metadata, of `lv`.
bool IsOf(const lvm::LogicalVolume& part, const std::string& lv);

void SetTags(lvm::LogicalVolume& lv, const std::vector<std::string>& add,
             const std::vector<std::string>& remove);

// Where the legs of an existing volume begin and end; empty if it is not made as `geometry` says.
std::vector<AllocationRequest::Tail> Tails(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                           const lvm::Geometry& geometry);
// Appends what was allocated to the volume, as lvextend does: legs keep their place in the order.
void Grow(lvm::VolumeGroup& group, lvm::LogicalVolume& lv, const lvm::Geometry& geometry,
          const std::vector<AllocatedLeg>& legs);
// The new volume with its hidden parts, active.
void AddVolume(lvm::VolumeGroup& group, const lvm::CreateLv& spec, const std::vector<AllocatedLeg>& legs,
               bool in_sync, const std::function<std::string()>& new_uuid);

// New extents for the legs of `lv` that lie on missing PVs, or on the one of uuid `leave` if that is not
// empty, as lvconvert --repair and --replace find them under the policy that the volume was made with, which
// is "contiguous" here.
Status ReplaceLegs(lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& leave,
                   const std::vector<std::string>& pv_arguments);

// What of volume `lv`, its legs included, lies in `from` is in `to` afterwards, in the same order. kNotFound:
// nothing does. kNoSpace: `to` is not free, or not as long as that.
Status MoveExtentsOf(lvm::VolumeGroup& group, const std::string& lv, const lvm::PhysicalRange& from,
                     const lvm::PhysicalRange& to);

// Ends the move off this PV that stands in the group, a hidden volume "pvmove…" of mirror segments from there
// to elsewhere: what lies on it is at the place that it goes to, or back where it was. False: there is none.
bool EndMoveOff(lvm::VolumeGroup& group, const std::string& device, bool arrived);

// Brings up to date what follows from PVs and segments: free ranges, counts, sizes, partial flags.
void Derive(lvm::VolumeGroup& group);

// About as long as LVM's text: some 400 bytes for a linear volume, 1,900 for a raid1.
uint64_t MetadataSize(const lvm::VolumeGroup& group);

}  // namespace quarry::fakes
