// The commands of quarryctl that read and print. None of them changes anything.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dm/dm_api.h"
#include "engine/disks.h"
#include "engine/model/config.h"
#include "engine/model/volume_requests.h"
#include "lvm/lvm_api.h"

namespace quarry::ctl {

// Everything that a command works with.
struct Bench {
  lvm::LvmApi& lvm;
  dm::DmApi& dm;
  std::vector<engine::PoolConfig> pools;
  bool json = false;
};

// Every command returns the text to print. `parameters` are those of a StorageClass.
Result<std::string> ShowCapacity(const Bench& bench, const engine::Parameters& parameters, const Call& call);
Result<std::string> ShowMap(const Bench& bench, size_t width, bool colour, const Call& call);
// Which disks would join the pools if quarryd looked for disks now. Changes nothing.
std::string DiskPlan(const std::vector<engine::DeviceReport>& disks,
                     const std::vector<engine::PoolConfig>& pools, bool json);
// The steps that CreateVolume would take for this profile and size, line by line, without taking them.
Result<std::string> ShowPlan(const Bench& bench, const engine::Parameters& parameters, Bytes size,
                             const Call& call);

}  // namespace quarry::ctl
