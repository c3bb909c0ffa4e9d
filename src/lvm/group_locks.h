// Which volume groups are this process's to change. A seam: who runs commands asks it, and the daemon, which
// knows where locks lie, implements it.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::lvm {

// Thread-safe. What was claimed stays claimed for as long as the object lives.
class GroupLocks {
 public:
  virtual ~GroupLocks() = default;

  // Before the first command about a group of that name, whether or not there is one. Claimed already is OK.
  // kPrecondition: another process has it, which the message names.
  virtual Status ClaimName(const std::string& group) = 0;
  // As soon as the group's UUID is known. True: it is claimed from now on only, and what was read of the
  // group before may be out of date. kPrecondition as above; also while a command runs that the last owner
  // left.
  virtual Result<bool> Claim(const std::string& group, const std::string& uuid) = 0;

  // Whether what was claimed still excludes others: before each change of the group, by a command or without
  // one. A few microseconds. kUnavailable names the file that is gone and what to do.
  virtual Status Check(const std::string& group) const = 0;
  // Check, and the descriptor that a command changing the group keeps open until it ends: nobody else gets
  // the group before. It stays this object's. Of a group without a known UUID it is that of its name;
  // kInternal if not even that was claimed.
  virtual Result<int> ForCommand(const std::string& group) const = 0;
};

}  // namespace quarry::lvm
