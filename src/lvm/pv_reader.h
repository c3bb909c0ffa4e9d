// What the headers on a disk show about the physical volume on it: the label, and the group in its metadata
// text. Used to report what is on a disk, and to leave disks with a PV alone. Not used to find the PVs of
// Quarry's own groups: PvLinks does that.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

struct PvFacts {
  enum class Kind {
    kNoPv,        // readable, no label
    kPv,          // a physical volume; `uuid` is set
    kDamaged,     // a label that fails its checks
    kUnreadable,  // cannot be opened or read, or is gone
    kSilent,      // does not answer
  };
  Kind kind = Kind::kNoPv;
  std::string uuid;  // with hyphens
  // From the metadata text on this disk. Empty: the PV is in no group, or has no metadata area in use, or its
  // text is not understood.
  std::string group, group_uuid;
};

// Thread-safe.
class PvReader {
 public:
  virtual ~PvReader() = default;
  // One entry for each device, in the same order. Bypasses the page cache, opens no disk exclusively, runs no
  // LVM command, and waits at most one second for a disk. kTimeout, kCancelled: the call ended first.
  virtual Result<std::vector<PvFacts>> ReadPvs(const std::vector<std::string>& devices, const Call& call) = 0;
};

}  // namespace quarry::lvm
