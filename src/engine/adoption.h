// Taking over logical volumes that Quarry did not make, and giving them back.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/types.h"

namespace quarry::engine {

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Adoption {
 public:
  // `parts` outlives it.
  explicit Adoption(Parts& parts) : parts_(parts) {}

  // Adoption (adoption.cc); `group` and names as LVM has them. A repetition finds it done.
  // kPrecondition: it is in use, or is or holds what cannot be taken over, in words. kAlreadyExists: its
  // name is another volume's. kNotFound: no pool has that group, or the group no such logical volume.
  Result<AdoptResult> Adopt(const AdoptRequest& request, const Call& call);
  // kPrecondition while it is staged, published, or open for anybody.
  Result<ReleaseResult> Release(const std::string& id, bool dry_run, const Call& call);
  // The group's logical volumes that are not ours and might become so, by name.
  Result<std::vector<ForeignLv>> Foreign(const std::string& group, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
