// Adopting logical volumes that Quarry did not create, and releasing volumes.
#pragma once

#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "engine/model/volume.h"
#include "engine/model/volume_requests.h"

namespace quarry::engine {

struct AdoptResult {
  Volume volume;
  std::string access;   // as in VolumeTags
  std::string holds;    // "ext4", "nothing", "raw data"; empty if it was already managed
  std::string profile;  // canonical
  bool changed = false;
};

// The release of a volume: it becomes unmanaged. The logical volume stays, inactive, with its name.
struct ReleaseResult {
  std::string group, lv_name;
  bool changed = false;  // false: it was already released, or dry_run
};

struct ForeignLv {
  std::string lv_name;
  std::string id;  // as ListVolumes may show it; empty: its uuid cannot be part of an id
  Bytes size;
  bool csilvm = false;  // has a name of the form that csilvm gives
};

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Adoption {
 public:
  // `parts` must outlive this object.
  explicit Adoption(Parts& parts) : parts_(parts) {}

  // Turns an unmanaged logical volume into a volume (calls/adoption.cc). `group` and names are LVM's. A
  // repeated call changes nothing. kPrecondition: the logical volume is in use, or cannot be adopted, with
  // the reason. kAlreadyExists: another volume has its name. kNotFound: no pool has that group, or the group
  // has no such logical volume.
  Result<AdoptResult> Adopt(const AdoptRequest& request, const Call& call);
  // kPrecondition while the volume is staged, published, or open for any process.
  Result<ReleaseResult> Release(const std::string& id, bool dry_run, const Call& call);
  // The group's unmanaged logical volumes that could be adopted, ordered by name.
  Result<std::vector<ForeignLv>> Foreign(const std::string& group, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
