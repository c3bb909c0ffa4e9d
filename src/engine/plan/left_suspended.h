// Thin stores that a killed command of LVM left suspended.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/world.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Makes ready for LVM's activation, which resumes, what a killed command left of the store whose pool is
// `pool`. LVM grows a store from the bottom, so the parts may be live with their new size while larger tables
// wait above them, and it suspends the store from the top.
//
// - Tables that wait for the pool are dropped. Activation loads the parts as the metadata say, but not what
//   waits already, and the kernel refuses to resume the pool with a larger table than its data. Tables of
//   parts stay: dropping that of a RAID device writes to its legs.
// - Legs of the parts are resumed with the tables that they have. Activation may have to load the table of a
//   RAID device, and the kernel then reads the superblocks on the legs: LVM would wait for itself, with the
//   group's lock. The RAID device itself stays suspended, so nothing else reaches the legs.
//
// Nothing is done while a command changes the group: it may be its own work. Waits for the command, within
// limits. OK if no leg is suspended any more: if a table still waits, the activation fails and says so.
// Otherwise LVM must not run: kUnavailable, errors of LvmApi::Hold and of DmApi.
Status PrepareResume(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                     const Call& call);

}  // namespace quarry::engine
