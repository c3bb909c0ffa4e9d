// The seams through which the engine acts. The daemon or a test passes them in.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/call.h"
#include "base/subprocess.h"
#include "dm/dm_api.h"
#include "dm/erase_api.h"
#include "dm/raid_legs_api.h"
#include "lvm/group_locks.h"
#include "lvm/lvm_api.h"
#include "lvm/pv_reader.h"
#include "mount/mount_api.h"
#include "thin/pool_reader_api.h"
#include "thin/repair_api.h"
#include "udev/disk_health.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// Is called before and after every step of every plan, on the thread that executes the step. For tests, which
// end the process there; quarryd has none.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  // `step` is Text() of the action.
  virtual void Before(const std::string& step) = 0;
  virtual void After(const std::string& step) = 0;
};

// The seams are not owned; every reference must outlive the engine.
struct World {
  lvm::LvmApi& lvm;
  dm::DmApi& dm;
  dm::EraseApi& erase;
  mount::MountApi& mount;
  const Clock& clock;
  Subprocess& children;  // reports all stuck commands
  udev::UdevApi& udev;
  lvm::PvReader& pvs;
  // Never nullptr. Shared, because a disk that does not answer keeps the thread that polls it.
  std::shared_ptr<udev::DiskHealthApi> health;
  dm::RaidLegsApi& raid_legs;
  thin::PoolReaderApi& thin;
  thin::RepairApi& thin_repair;
  // Check() is called before quarryd itself, without an LVM command, writes bytes below device-mapper.
  const lvm::GroupLocks& locks;
  // By group: reports the stuck commands of that group. Never nullptr. For a group without an entry:
  // `children`.
  std::map<std::string, Subprocess*> children_of = {};
  StepWatcher* steps = nullptr;  // for tests only
};

}  // namespace quarry::engine
