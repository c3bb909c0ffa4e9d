// quarryctl's commands: each looks, and prints. None of them changes anything.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dm/dm_api.h"
#include "engine/engine.h"
#include "lvm/lvm_api.h"

namespace quarry::ctl {

// What a command works with.
struct Bench {
  lvm::LvmApi& lvm;
  dm::DmApi& dm;
  std::vector<engine::PoolConfig> pools;
  bool json = false;
};

struct ProfileWish {
  engine::Parameters parameters;  // as in a StorageClass
  std::string size;               // of a plan: "10GiB"; empty: the default
};

// Every command returns what to print.
Result<std::string> ShowCapacity(const Bench& bench, const ProfileWish& wish, const Call& call);
Result<std::string> ShowMap(const Bench& bench, size_t width, bool colour, const Call& call);
// Which disks quarryd would take for its pools, by what it would see if it looked now; none is taken.
std::string DiskPlan(const std::vector<engine::DeviceReport>& disks,
                     const std::vector<engine::PoolConfig>& pools, bool json);
// What CreateVolume would do for this profile and size, line by line, without doing it.
Result<std::string> ShowPlan(const Bench& bench, const ProfileWish& wish, Bytes size, const Call& call);

}  // namespace quarry::ctl
