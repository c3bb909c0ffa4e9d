// The seams that the engine acts through, handed in by the daemon or by a test.
#pragma once

#include "base/call.h"
#include "dm/dm_api.h"
#include "dm/erase_api.h"
#include "lvm/lvm_api.h"
#include "mount/mount_api.h"

namespace quarry::engine {

// Not owned; every reference outlives the engine.
struct World {
  lvm::LvmApi& lvm;
  dm::DmApi& dm;
  dm::EraseApi& erase;
  mount::MountApi& mount;
  const Clock& clock;
};

}  // namespace quarry::engine
