// Making a metadata commit survive a power cut.
//
// LVM writes metadata with O_DIRECT and asks for no flush, so a commit that lvm calls done may sit in the
// volatile cache of a disk. fsync on the block device sends the disk a flush.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

struct FlushTarget {
  std::string uuid;    // of the PV
  std::string device;  // where it was last seen
  bool holds_metadata = false;
};

// Flushes every target that is still the PV it was (its label is read first: a path may belong to another
// disk by now). OK if at least one that holds metadata was flushed: after a power cut LVM takes the newest
// copy, so one durable copy makes the commit durable, and a dying disk must not keep its group from being
// changed. Else the first failure.
Status FlushPvs(const std::vector<FlushTarget>& targets, const Call& call);

// The same for a device that has just been made a PV, of whatever uuid.
Status FlushNewPv(const std::string& device, const Call& call);

}  // namespace quarry::lvm
