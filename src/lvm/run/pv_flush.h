// Makes a metadata commit survive a power cut.
//
// LVM writes metadata with O_DIRECT and requests no flush. So a commit that lvm reports as done may still be
// in a disk's volatile cache. fsync on the block device makes the kernel send the disk a flush.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

struct FlushTarget {
  std::string uuid;    // of the PV
  std::string device;  // where the PV was last seen
  bool holds_metadata = false;
};

// Flushes every target that is still the same PV. The label is read first, because the path may belong to
// another disk by now. OK if at least one target with metadata was flushed; otherwise returns the first
// failure. After a power cut LVM takes the newest copy, so one durable copy makes the commit durable. So a
// failing disk does not block changes of its group.
Status FlushPvs(const std::vector<FlushTarget>& targets, const Call& call);

// The same for a device that was just made a PV, whatever its uuid.
Status FlushNewPv(const std::string& device, const Call& call);

}  // namespace quarry::lvm
