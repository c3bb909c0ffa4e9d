// What disks say of themselves as physical volumes: the label, and the group whose text they bear. For
// telling an administrator what is on a disk, and for leaving it alone; where our groups are, FreshLvm knows.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

struct PvFacts {
  enum class Kind {
    kNoPv,        // readable, and no label on it
    kPv,          // a physical volume; `uuid` is set
    kDamaged,     // a label that does not check out
    kUnreadable,  // cannot be opened or read, or is gone
    kSilent,      // gives no answer
  };
  Kind kind = Kind::kNoPv;
  std::string uuid;  // with hyphens
  // Of the text on this very disk. Empty: it is in no group, or has no metadata area in use, or its text does
  // not make sense.
  std::string group, group_uuid;
};

// Thread-safe.
class PvReader {
 public:
  virtual ~PvReader() = default;
  // One for each device, in their order. Reads past the page cache, claims nothing, starts no LVM, and waits
  // for no disk longer than a second. kTimeout, kCancelled: the call ended first.
  virtual Result<std::vector<PvFacts>> ReadPvs(const std::vector<std::string>& devices, const Call& call) = 0;
};

}  // namespace quarry::lvm
