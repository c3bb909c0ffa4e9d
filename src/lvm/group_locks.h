// Which volume groups this process may change. A seam: the code that runs commands uses it; the daemon, which
// knows the lock files, implements it.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::lvm {

// Thread-safe. A claim lasts as long as the object.
class GroupLocks {
 public:
  virtual ~GroupLocks() = default;

  // Call before the first command for a group of this name, whether or not the group exists. OK if already
  // claimed. kPrecondition: another process has the claim; the message names it.
  virtual Status ClaimName(const std::string& group) = 0;
  // Call as soon as the group's UUID is known. True: the claim is new, so what was read of the group before
  // may be outdated. kPrecondition: another process has the claim, or a command of the last owner is still
  // running; the message names it.
  virtual Result<bool> Claim(const std::string& group, const std::string& uuid) = 0;

  // Call before each change of the group, whether a command makes it or not. Reads call it too. OK: the claim
  // still excludes others, or there is no claim yet. Takes a few microseconds. kUnavailable names the missing
  // file and the remedy.
  virtual Status Check(const std::string& group) const = 0;
  // Calls Check, and returns a descriptor for a command that changes the group. The command keeps it open
  // until it ends; no other process gets the group before that. The descriptor remains owned by this object.
  // If the group's UUID is not known yet, it is the descriptor of the name's lock; kInternal if the name is
  // not claimed either.
  virtual Result<int> ForCommand(const std::string& group) const = 0;
};

}  // namespace quarry::lvm
