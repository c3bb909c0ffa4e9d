// Makes a volume group with many volumes in seconds, by copying volumes that quarryd made in the text of
// LVM's metadata. A thousand creates would take an hour in an emulated machine.
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

// `backup` is the output of vgcfgbackup. Returns it with copies of the models in turn, each with its own LV
// name, LV ids, CO name ("NAME-copy-N") and extents, on the PVs of its model. All legs of a model must be
// linear on one PV (types linear and raid1). Pure, except for the random names.
Result<std::string> MultiplyVolumes(const std::string& backup, const std::vector<Model>& models,
                                    size_t copies);

}  // namespace quarry::bench
