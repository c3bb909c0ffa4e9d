// The effect of LVM's commands on a group, as pure changes of a value. Part of FakeLvm.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lvm/lvm_api.h"
#include "tests/fakes/fake_lvm_alloc.h"

namespace quarry::fakes {

// nullptr if not found.
lvm::LogicalVolume* Find(lvm::VolumeGroup& group, const std::string& name);
// Whether `part` is a leg of `lv`, or a leg's metadata.
bool IsOf(const lvm::LogicalVolume& part, const std::string& lv);

void SetTags(lvm::LogicalVolume& lv, const std::vector<std::string>& add,
             const std::vector<std::string>& remove);

// Where the legs of an existing volume begin and end; empty if the volume does not have this geometry.
std::vector<AllocationRequest::Tail> Tails(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                           const lvm::Geometry& geometry);
// Appends the allocated extents to the volume, as lvextend does: legs keep their order.
void Grow(lvm::VolumeGroup& group, lvm::LogicalVolume& lv, const lvm::Geometry& geometry,
          const std::vector<AllocatedLeg>& legs);
// Adds the new volume with its hidden parts, active.
void AddVolume(lvm::VolumeGroup& group, const lvm::CreateLv& spec, const std::vector<AllocatedLeg>& legs,
               bool in_sync, const std::function<std::string()>& new_uuid);

// New extents for the legs of `lv` on missing PVs, or on the PV `leave` if it is not empty. They are found as
// by lvconvert --repair and --replace, under the policy that the volume was made with, which is "contiguous"
// here.
Status ReplaceLegs(lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& leave,
                   const std::vector<std::string>& pv_arguments);

// Moves the extents of volume `lv`, legs included, from `from` to `to`, in the same order. kNotFound: there
// are none. kNoSpace: `to` is not free, or too short.
Status MoveExtentsOf(lvm::VolumeGroup& group, const std::string& lv, const lvm::PhysicalRange& from,
                     const lvm::PhysicalRange& to);

// Ends the existing move off this PV, a hidden volume "pvmove…" of mirror segments. The moved extents are
// then at their target, or back where they were. False: there is no move.
bool EndMoveOff(lvm::VolumeGroup& group, const std::string& device, bool arrived);

// Recomputes what follows from PVs and segments: free ranges, counts, sizes, partial flags.
void Derive(lvm::VolumeGroup& group);

// About as long as LVM's text: some 400 bytes for a linear volume, 1,900 for a raid1.
uint64_t MetadataSize(const lvm::VolumeGroup& group);

}  // namespace quarry::fakes
