// Whether a snapshot read from the text on the disks equals LVM's report: for tests with real disks.
#pragma once

#include <cstdint>
#include <string>

#include "lvm/snapshot.h"

namespace quarry::lvm::testing {

// Every field, one per line.
std::string AllOf(const VolumeGroup& group);

// Texts compared in this process, and texts that only LVM can read according to the reader.
struct TextTally {
  uint64_t compared = 0;
  uint64_t asked = 0;
};
TextTally& Texts();

// Reads headers and text of the group's PVs, where the report locates them, and compares. Empty: equal, or
// the text cannot be read without LVM. The group must not change meanwhile.
std::string TextDifference(const VolumeGroup& report);

}  // namespace quarry::lvm::testing
