// The seams that the engine acts through, handed in by the daemon or by a test.
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
#include "udev/disk_health.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// Told of every step of every plan, on the thread that takes it. For tests, which end the process there:
// nothing that users run has one.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  // `step` as Text() of the action says it.
  virtual void Before(const std::string& step) = 0;
  virtual void After(const std::string& step) = 0;
};

// Not owned; every reference outlives the engine.
struct World {
  lvm::LvmApi& lvm;
  dm::DmApi& dm;
  dm::EraseApi& erase;
  mount::MountApi& mount;
  const Clock& clock;
  StepWatcher* steps = nullptr;
  Subprocess* children = nullptr;  // asked what is stuck of everything; nullptr: nobody counts
  // For disks that rules name; nullptr, either of them: disks are not looked at, explicit paths apart.
  udev::UdevApi* udev = nullptr;
  lvm::PvReader* pvs = nullptr;
  // Shared, because a disk that does not answer keeps whoever asked it; nullptr: disks are not asked.
  std::shared_ptr<udev::DiskHealthApi> health = nullptr;
  // For raid volumes that have stopped; nullptr: they stay so.
  dm::RaidLegsApi* raid_legs = nullptr;
  // Check() before bytes are written below device-mapper, which no LVM command does; nullptr: nobody else can
  // have the groups.
  const lvm::GroupLocks* locks = nullptr;
  // By group: asked what is stuck of that group's commands. Of a group that is not there: `children`.
  std::map<std::string, Subprocess*> children_of = {};
};

}  // namespace quarry::engine
