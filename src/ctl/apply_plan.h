// What `quarryctl apply` does: (declared volumes, present volumes) → steps. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ctl/declaration.h"
#include "ctl/volume_client.h"

namespace quarry::ctl {

struct ApplyStep {
  enum class Kind { kCreate, kGrow, kUnmount, kMount, kOwn, kDelete };
  Kind kind;
  std::string volume;  // its name
  std::string text;    // "create volume data: 10 GiB raid1 ext4"
  // kCreate, kGrow, kMount, kOwn: what is declared. kUnmount, kGrow, kDelete: what is there.
  DeclaredVolume declared = {};
  VolumeRow present = {};
};

struct ApplyPlan {
  std::vector<ApplyStep> steps;    // in the order in which they are done; empty: all is as declared
  std::vector<std::string> notes;  // what differs from the declaration and stays
};

// `remove`: names of volumes to delete. kInvalidArgument: one of them is declared too. kPrecondition: a
// present volume has another type or file system than declared, or a declared mount point, or is mounted
// below one that must be unmounted; with the remedy. kUnavailable: a declared or named volume is not there,
// and a pool that might have it cannot be read.
Result<ApplyPlan> PlanApply(const std::vector<DeclaredVolume>& declared, const VolumeList& present,
                            const std::vector<std::string>& remove);

// The request that makes a declared volume.
NewVolume WishFor(const DeclaredVolume& declared);

}  // namespace quarry::ctl
