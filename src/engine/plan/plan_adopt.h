// Which logical volumes may be adopted, and with which tags. Pure: the caller passes what is on the device.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/profile.h"
#include "engine/model/volume_requests.h"
#include "mount/mount_api.h"

namespace quarry::engine {

// A logical volume that may be adopted, judged by the group's metadata alone.
struct Candidate {
  Record record;  // of the unmanaged LV, with its future id
  std::string name;
  Profile profile;
};
// kNotFound: the group has no such LV. kPrecondition: LVs of this kind are not adopted; the error has the
// reason. kUnavailable: a disk of the LV is missing. kInvalidArgument: the request is wrong.
Result<Candidate> Examine(const std::string& pool, const Catalog& catalog, const AdoptRequest& request);

// The content of the device.
struct Findings {
  mount::Content content;
  bool begins_with_zeros = false;
};

struct AdoptionPlan {
  lvm::VolumeTags tags;
  std::string holds;  // as in AdoptResult
};
// A volume with a supported file system is for mounting and raw use, and is never formatted. A blank volume
// that begins with zeroes is for both too, and is formatted when first mounted. A volume that libblkid calls
// blank but that does not begin with zeroes may hold a tenant's raw data, so it is for raw use only. Any
// other content gives kPrecondition, and the error names the content.
Result<AdoptionPlan> PlanAdoption(const Candidate& candidate, const AdoptRequest& request,
                                  const Findings& findings);

}  // namespace quarry::engine
