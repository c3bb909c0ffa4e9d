// The seam to LVM. Only code behind this interface runs LVM commands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "lvm/change.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Releases the group when destroyed.
class GroupHold {
 public:
  virtual ~GroupHold() = default;
};

// A group that cannot change: while `hold` exists, no process can commit a change of the group or activate
// one of its volumes. LVM commands of this host that would do so wait, and readers wait behind them. Release
// a hold within moments. Do not keep it while a command runs, while waiting for a turn, or while pausing.
struct HeldGroup {
  Snapshot snapshot;
  std::vector<std::string> silent;  // uuids of PVs that did not answer
  std::unique_ptr<GroupHold> hold;
};

// When Apply() returns OK, the change is complete and durable: flushed to at least one PV with metadata.
// After a failure, nothing or everything may have happened: read the group again. Calls may come from any
// thread. The caller ensures one writer per group; LVM's own lock is the last line of defense.
//
// Errors of all calls: kNotFound (no such group or LV), kTimeout / kCancelled (killed; outcome unknown),
// kNoSpace (no free extents, or the metadata area is full: the message says which), kPrecondition (in use),
// kUnavailable (blocked by a lock or a missing PV), kIo, kInternal (LVM's own words are in the message).
class LvmApi {
 public:
  virtual ~LvmApi() = default;

  // The current state of the group. kNotFound: LVM looked and found no group of this name.
  virtual Result<Snapshot> Read(const std::string& group, const Call& call) = 0;
  // Runs one verb (change.h says what each does, and its own errors).
  virtual Status Apply(const Change& change, const Call& call) = 0;
  // The version ("2.03.16") of the LVM that works on the group, which need not exist. kNotFound if LVM is not
  // installed.
  virtual Result<std::string> Version(const std::string& group, const Call& call) = 0;

  // Holds the group unchanged. Waits until no LVM command changes it. kUnavailable: the headers on the disks
  // do not prove that the snapshot is the committed group. kUnsupported: this implementation cannot hold
  // groups.
  virtual Result<HeldGroup> Hold(const std::string& group, const Call& /*call*/) {
    return Error(Code::kUnsupported, "this LVM backend cannot hold volume group " + group + " unchanged");
  }

  // One line that stands for the committed state of the snapshot's group, and for the attachment of its
  // disks. If it is the same at two moments of one boot of the host, no process has committed in between, and
  // no disk was detached. kUnavailable: the snapshot is not the current state, or the disks do not prove it.
  // kUnsupported: this implementation, or this kernel, cannot tell.
  virtual Result<std::string> Fingerprint(const Snapshot& snapshot, const Call& /*call*/) {
    return Error(Code::kUnsupported, "this LVM backend has no fingerprint of group " + snapshot->name);
  }
};

}  // namespace quarry::lvm
