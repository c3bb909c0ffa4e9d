// lvm2's allocator for commands that name PVs and ranges. Pure; part of FakeLvm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lvm/lvm_api.h"

namespace quarry::fakes {

struct AllocationRequest {
  uint64_t legs = 1;
  uint64_t per_leg = 0;   // extents of each leg, or all of them for one leg
  uint64_t metadata = 0;  // extents of each leg's metadata sub-volume, taken from its first area
  std::string policy;     // contiguous, cling, normal
  // For an extend: where each leg begins (PV uuid), and the extent after its last one. Empty: a create.
  struct Tail {
    std::string first_pv;
    std::string last_pv;
    uint64_t next = 0;
  };
  std::vector<Tail> tails;
};

struct AllocatedLeg {
  std::vector<lvm::PhysicalRange> data;
  std::vector<lvm::PhysicalRange> metadata;
};

// One allocated leg for each requested one. kNoSpace; kUnavailable (a PV that the group does not have);
// kInternal (ranges that lvm would not parse, or that overlap).
Result<std::vector<AllocatedLeg>> Allocate(const lvm::VolumeGroup& group,
                                           const std::vector<std::string>& pv_arguments,
                                           const AllocationRequest& request);

// "/dev/a:0-9:20-29": ranges on a PV of the group. kInternal, kUnavailable.
Result<std::vector<lvm::PhysicalRange>> ReadPvArgument(const lvm::VolumeGroup& group,
                                                       const std::string& argument);

}  // namespace quarry::fakes
