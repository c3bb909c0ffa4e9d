// What may be adopted, and as what. Pure: what is on the device is handed in.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/profile.h"
#include "engine/model/types.h"
#include "mount/mount_api.h"

namespace quarry::engine {

// One that may be adopted, as far as the group tells.
struct Candidate {
  Record record;  // of a foreign LV, with the id that it will have
  std::string name;
  Profile profile;
};
// kNotFound: the group has no such LV. kPrecondition: it is of a kind that is not adopted, and why.
// kUnavailable: a disk of it is missing. kInvalidArgument: the request.
Result<Candidate> Examine(const std::string& pool, const Catalog& catalog, const AdoptRequest& request);

// What is on the device.
struct Findings {
  mount::Content content;
  bool begins_with_zeros = false;
};

struct AdoptionPlan {
  lvm::VolumeTags tags;
  std::string holds;  // as AdoptResult
};
// With a file system of ours it is for mounting and raw use, and never formatted. Blank and zero at its
// beginning: the same, and formatted when first mounted. Blank to libblkid but not empty: somebody's raw
// data, so raw use only. Anything else is kPrecondition, naming it.
Result<AdoptionPlan> PlanAdoption(const Candidate& candidate, const AdoptRequest& request,
                                  const Findings& findings);

}  // namespace quarry::engine
