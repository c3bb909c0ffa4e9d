// The seams of an engine for tests. A seam that a test does not name has nothing to report: no disks, no
// health, no stuck commands, no other quarryd.
#pragma once

#include <memory>

#include "engine/world.h"
#include "tests/fakes/fake_disk_health.h"
#include "tests/fakes/fake_lvm.h"

namespace quarry::fakes {

// Each may be used by several engines at a time, and lives as long as the process.
udev::UdevApi& NoDisks();
Subprocess& NoCommands();                 // runs nothing
thin::PoolReaderApi& NoPools();           // has no metadata of pools
thin::RepairApi& NoRepairs();             // has no tools
const lvm::GroupLocks& NoOtherQuarryd();  // every group is ours

// What it refers to must outlive the engine.
struct FakeWorld {
  FakeLvm& lvm;  // also reads PVs
  dm::DmApi& dm;
  dm::EraseApi& erase;
  mount::MountApi& mount;
  const Clock& clock;
  Subprocess& children = NoCommands();
  udev::UdevApi& udev = NoDisks();
  std::shared_ptr<udev::DiskHealthApi> health = std::make_shared<FakeDiskHealth>();
  dm::RaidLegsApi& raid_legs = lvm.raid_legs();
  thin::PoolReaderApi& thin = NoPools();
  thin::RepairApi& thin_repair = NoRepairs();
  const lvm::GroupLocks& locks = NoOtherQuarryd();
  engine::StepWatcher* steps = nullptr;

  // Implicit, so that a test passes it where an engine takes a World.
  operator engine::World() const;
};

}  // namespace quarry::fakes
