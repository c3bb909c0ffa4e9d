// Volume groups for layout tests: built from free runs, and changed by plans as LVM would change them on the
// plans' commands.
#pragma once

#include <string>
#include <vector>

#include "lvm/layout.h"

namespace quarry::lvm::testing {

// {first, count} of each free run. The extents between them are used, by no particular volume.
using Runs = std::vector<ExtentRange>;

// PVs "pv0" on /dev/pv0, …, each just large enough for its runs.
VolumeGroup GroupOf(const std::vector<Runs>& free, Bytes extent_size = Bytes{4 * kMiB.value});
// PVs that are completely free.
VolumeGroup GroupOfSizes(const std::vector<uint64_t>& extents, Bytes extent_size = Bytes{4 * kMiB.value});

Geometry MakeGeometry(VolumeType type, uint32_t stripes = 0, uint32_t mirrors = 0);
// Every type with the small numbers of stripes and mirrors that fit up to `max_legs` disks.
std::vector<Geometry> SmallGeometries(uint32_t max_legs);

// Runs the commands of a plan on the group. Extents move from the free lists to the named volume, which the
// first step of a create makes. Fails the current test if a range is not free.
void Apply(VolumeGroup& group, const Geometry& geometry, const std::string& name, const Placement& plan);
void Remove(VolumeGroup& group, const std::string& name);

// Checks what must hold for every plan: the geometry's number of legs, each on one PV of its own, sizes that
// add up, nothing used twice, commands that name exactly the planned extents, pieces within the limit.
void ExpectSound(const FreeSpace& space, const Geometry& geometry, const Placement& plan);

uint64_t FreeExtents(const VolumeGroup& group);

}  // namespace quarry::lvm::testing
