// Whether a snapshot made from the text on the disks is the one that LVM reports: for tests with disks under
// them.
#pragma once

#include <cstdint>
#include <string>

#include "lvm/snapshot.h"

namespace quarry::lvm::testing {

// Every field, one thing a line.
std::string AllOf(const VolumeGroup& group);

// Texts compared in this process, and those of which the reader said that only LVM can tell.
struct TextTally {
  uint64_t compared = 0;
  uint64_t asked = 0;
};
TextTally& Texts();

// Reads the headers and the text of the group's PVs, where the report says they are, and compares. Empty:
// equal, or not to be read so. Nobody may change the group meanwhile.
std::string TextDifference(const VolumeGroup& report);

}  // namespace quarry::lvm::testing
