// LVM commits a change of a thin pool's set of volumes to its text first, and sends it to the kernel's pool
// after that. The pool's transaction id is lower by one until then (docs/thin.md, section 1). A command that
// was killed in between leaves the message in the text, and LVM sends it before its next creation or removal
// in the pool, or with its next growth or refresh of an active volume there.
//
// A message also stays in the text after it was sent: where the command was killed at its last commit, or a
// growth or a refresh sent it. The next creation takes it out. The next removal takes it out, too, but sends
// nothing, not even its own message, and reports success: the device stays in the pool.
#pragma once

#include <cstdint>
#include <string>

#include "base/call.h"
#include "base/result.h"
#include "engine/world.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// A snapshot that `lvcreate -s` has begun and not finished. nullptr: the pool has none. Only administrators
// make snapshots that way. If the command was killed and the pool has the snapshot's device already, LVM can
// change nothing in the pool, and cannot get out of that by itself. `kernel_id`: the pool's transaction id.
const lvm::LogicalVolume* UnfinishedSnapshot(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                             uint64_t kernel_id);

// kPrecondition: the pool has an unfinished snapshot. Whether it was cut off, and has its device, is not
// looked at.
Status CheckFinished(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, uint64_t kernel_id);

// Never OK: says what to do about the unfinished snapshot with this LV UUID, which has its device. Waits
// until no command of LVM is at work on the group. kPrecondition: it was cut off; the message has the command
// that ends that. kUnavailable: it is finished by now, or LVM's lock was not to be had: try again.
Status ExplainUnfinished(const std::string& group, const std::string& pool, const std::string& snapshot,
                         const World& world, const Call& call);

// Sees to it that LVM's next removal of the inactive thin volume `lv` gives back its chunks. Where LVM could
// leave the device in the pool, this deletes it. If the removal fails after that, `lv` has no device. Only a
// volume that is being made or erased may get into that state, and it is removed like any other. The caller
// has the group's turn and has proven that `lv` may go. Waits for LVM's own lock if the text may have
// messages. The store is in the kernel.
//
// kUnavailable: LVM's lock was not to be had, or another process has changed the group since `group` was
// read, or `lv` is ready: try again, and tag it as erasing first. kPrecondition: LVM can remove nothing in
// the pool: see ExplainUnfinished; or LVM's text of the store is not that of the kernel. Errors of
// StartStore, HealthyPool, lvm::IsAloneInPool and MetadataHold::Begin.
Status PrepareRemoval(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                      const Call& call);

// Deletes from the kernel's pool the devices that a killed command has removed from LVM's text only. Until
// then they have chunks that LVM's text counts as free. LVM bears it that they are gone. The caller has the
// group's turn; this waits for LVM's own lock if there is anything to delete. The store is in the kernel.
//
// kUnavailable: LVM's lock was not to be had, or what LVM has still to send is not known: try again.
// kPrecondition: LVM's text of the store is not that of the kernel. Errors of HealthyPool.
Status EndRemovals(const std::string& group, const std::string& pool, const World& world, const Call& call);

}  // namespace quarry::engine
