// Random volume groups, made with the real lvm2. Plans are executed in them and compared with LVM's result.
// As a control, LVM also chooses by itself.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "lvm/layout.h"
#include "tests/property/lvm_lab.h"

namespace quarry::lvm::testing {

// What was tried, and LVM's own choices.
struct Tally {
  uint64_t groups = 0;
  uint64_t creates = 0;     // volumes that LVM made as planned
  uint64_t at_maximum = 0;  // of these, of the size of MaxExtents()
  uint64_t commands = 0;    // creates and extends
  uint64_t growths = 0;
  uint64_t controls = 0;         // bare lvcreate -l 100%FREE
  uint64_t control_refused = 0;  // … that failed although the plan's size could be made
  uint64_t control_shared = 0;   // … that put two legs on one disk
  uint64_t control_smaller = 0;  // … that made less than MaxExtents()
  uint64_t control_larger = 0;   // … that made more without sharing a disk (legs that span disks)
};

struct AgreementOptions {
  std::vector<VolumeType> types;
  uint64_t seed = 0;
  uint64_t most_extents = 60;  // of a PV
  size_t volumes_per_group = 14;
  uint64_t controls = 1;  // a control after one in this many volumes, on average
};

// Tries everything in one group. A disagreement fails the current gtest test, with seed and layout.
void TryOneGroup(LvmLab& lab, const AgreementOptions& options, uint64_t round,
                 std::map<VolumeType, Tally>& tallies);

// One line per type.
std::string Report(const std::map<VolumeType, Tally>& tallies);

}  // namespace quarry::lvm::testing
