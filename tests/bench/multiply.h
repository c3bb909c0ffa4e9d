// A volume group with as many volumes as wanted, in seconds: what quarryd made, many times over in the text
// of LVM's metadata. A thousand creates would take an hour in an emulated machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::bench {

struct Model {
  std::string lv_name;
  std::string co_name;
};

// `backup`: what vgcfgbackup wrote. Returns the same with copies of the models in turn, each with an LV name,
// LV ids, a CO name ("NAME-copy-N") and extents of its own, on the PVs of its model. All legs of a model must
// be linear on one PV (types linear and raid1). Pure, but for the random names.
Result<std::string> MultiplyVolumes(const std::string& backup, const std::vector<Model>& models,
                                    size_t copies);

}  // namespace quarry::bench
