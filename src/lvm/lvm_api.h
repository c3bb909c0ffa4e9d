// The seam to LVM. Only code behind this interface runs LVM commands.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "lvm/layout.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// What lvcreate does to the first extents of a new volume.
enum class Wipe {
  kSignaturesAndFirstBlock,  // -Wy -Zy: for extents of unknown content
  kNone,                     // -Wn -Zn: for extents known to be zero
};

struct CreateLv {
  std::string group;
  std::string name;
  Geometry geometry;
  PlacementStep step;  // where, and how many extents
  std::vector<std::string> tags;
  Wipe wipe = Wipe::kSignaturesAndFirstBlock;
  // --nosync: only for extents known to be zero. Ignored for raid6, which always syncs.
  bool assume_in_sync = false;
  Bytes max_recovery_rate;  // as Segment; ignored for types without redundancy
  // false: the volume stays inactive. Only with Wipe::kNone. LVM clears the metadata legs all the same.
  bool activate = true;
};

struct ExtendLv {
  std::string group;
  std::string name;
  Geometry geometry;
  PlacementStep step;
};

// Replaces the legs of a raid volume that are on missing PVs, or on a PV that is being evacuated.
struct RepairLv {
  std::string group;
  std::string name;
  std::vector<std::string> pv_arguments;  // where the new legs go: "/dev/a:0-49", one for each leg
  std::string leave;                      // path of the PV to evacuate; empty: the missing PVs
};

// Moves extents of one logical volume, or of its legs, to another PV while the volume is in use.
struct MoveExtents {
  std::string group;
  std::string name;  // of the volume, not of a leg
  std::string from;  // "/dev/a:0-49"
  std::string to;    // the same number of extents: "/dev/b:10-59"
};

struct PvChange {
  std::string group;
  std::string device;  // path of the PV, as in the snapshot
  bool allocatable = true;
  std::vector<std::string> add_tags, remove_tags;
};

// Enough metadata for about 10,000 linear volumes or 2,500 of raid1. The area cannot be enlarged later. LVM's
// default of 1 MiB is full after about 1,300 linear volumes (277 of raid1), and then every change fails.
inline constexpr Bytes kMetadataSize{64 * 1024 * 1024};

struct CreateGroup {
  std::string name;
  std::vector<std::string> devices;     // block devices; the caller has checked that they are blank
  Bytes extent_size;                    // a power of two
  Bytes metadata_size = kMetadataSize;  // per PV
};

struct AddPv {
  std::string group;
  std::string device;                   // block device
  Bytes metadata_size = kMetadataSize;  // of the metadata area
};

// Releases the group when destroyed.
class GroupHold {
 public:
  virtual ~GroupHold() = default;
};

// A group that cannot change: while `hold` exists, no process can commit a change of the group or activate
// one of its volumes. LVM commands of this host that would do so wait, and readers wait behind them. Hold a
// group for moments only, never during a command, a turn or a pause.
struct HeldGroup {
  Snapshot snapshot;
  std::vector<std::string> silent;  // uuids of PVs that did not answer
  std::unique_ptr<GroupHold> hold;
};

// When a mutation returns OK, it is complete and durable (flushed to every PV in use). After a failure,
// nothing or everything may have happened: read the group again. Calls may come from any thread. The caller
// ensures one writer per group; LVM's own lock is the last line of defense.
//
// Errors of all calls: kNotFound (no such group or LV), kTimeout / kCancelled (killed; outcome unknown),
// kNoSpace (no free extents, or the metadata area is full: the message says which), kPrecondition (in use),
// kUnavailable (blocked by a lock or a missing PV), kIo, kInternal (LVM's own words are in the message).
class LvmApi {
 public:
  virtual ~LvmApi() = default;

  // Makes the devices PVs and creates a group of them. The host's boot services leave the group inactive.
  // kAlreadyExists: a group of this name exists. kPrecondition: a device is in use or has a signature;
  // nothing was changed.
  virtual Status Create(const CreateGroup& spec, const Call& call) = 0;
  // The current state of the group. kNotFound: LVM looked and found no group of this name.
  virtual Result<Snapshot> Read(const std::string& group, const Call& call) = 0;

  // Creates a volume, and activates it if requested. kAlreadyExists if the name is taken.
  virtual Status Create(const CreateLv& spec, const Call& call) = 0;
  virtual Status Extend(const ExtendLv& spec, const Call& call) = 0;
  // OK if the volume is already gone. kPrecondition if it is active. Volumes that are built on it are removed
  // with it. So check first, and pass the group's sequence number of that check (as for Deactivate; 0: any).
  //
  // Of several volumes each is removed if possible, even if others fail; the error is that of one of them. If
  // none fails, all are removed by one command and one commit.
  virtual Status Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                        const Call& call) = 0;
  // One commit. OK if a tag to add is present, or a tag to remove is absent.
  virtual Status ChangeTags(const std::string& group, const std::string& name,
                            const std::vector<std::string>& add, const std::vector<std::string>& remove,
                            const Call& call) = 0;
  // OK if already active. Of several volumes each is activated if possible, even if others fail; the error is
  // that of one of them.
  virtual Status Activate(const std::string& group, const std::vector<std::string>& names,
                          const Call& call) = 0;
  // OK if already inactive. kPrecondition if the volume is open. `seqno`: the sequence number that the group
  // must have once LVM holds the lock, so that the caller's proof is still valid; 0: any. If the number
  // differs, nothing is done and the answer is OK all the same, so read the group afterwards.
  virtual Status Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                            const Call& call) = 0;

  // Makes the kernel reopen the disks of these volumes and accept failed raid legs again. For disks that
  // returned, under whatever name, or work again. Of several volumes each is refreshed if possible, even if
  // others fail; the error is that of one of them.
  virtual Status Refresh(const std::string& group, const std::vector<std::string>& names,
                         const Call& call) = 0;
  // The volume must be active. The kernel fills the new legs afterwards. kNoSpace: the ranges have no room.
  // The kernel does not read a leg on a PV being evacuated, so the volume has less redundancy until the new
  // leg is filled.
  virtual Status Repair(const RepairLv& spec, const Call& call) = 0;
  // Limits the rate of resyncs and scrubs of raid volumes (Segment::max_recovery_rate), including those in
  // progress. One commit for each volume; OK if the limit is already set.
  virtual Status LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                               const Call& call) = 0;
  // Makes a PV a full member again that returned after the group was changed without it. `device` as in the
  // snapshot. Its data may be outdated, so refresh its raid volumes.
  virtual Status RestorePv(const std::string& group, const std::string& device, const Call& call) = 0;
  // Removes the missing PVs from the group for good. OK if none is missing. kPrecondition: a logical volume
  // has extents on a missing PV.
  virtual Status DropMissingPvs(const std::string& group, const Call& call) = 0;

  // Changes the PV's tags, and whether extents may be allocated on it, in one or two commits. OK if already
  // so.
  virtual Status ChangePv(const PvChange& spec, const Call& call) = 0;
  // Moves the extents, and returns when they are on the other PV. The volume must be active; it stays
  // complete and in use throughout. If the command is killed, it leaves a hidden volume "pvmove…" below, and
  // the same call resumes that move. LVM runs one move off a PV at a time. While there is another move, this
  // call resumes that one, whatever it moves, so check first.
  virtual Status Move(const MoveExtents& spec, const Call& call) = 0;
  // Aborts the move off this PV, no matter who started it, so check first. The extents are back where they
  // were. OK if there is no move.
  virtual Status AbandonMove(const std::string& group, const std::string& device, const Call& call) = 0;
  // Removes an empty PV from the group. The label stays, and shows that the disk is not blank. kPrecondition:
  // the PV has extents in use, or is the last one. kUnavailable: the PV is not in the group.
  virtual Status RemovePv(const std::string& group, const std::string& device, const Call& call) = 0;

  // LVM's version ("2.03.16"). kNotFound if LVM is not installed.
  virtual Result<std::string> Version(const Call& call) = 0;

  // Makes a device a PV and adds it to the group, in one commit. The caller has checked that the device is
  // blank and unused. Works while a PV of the group is missing; like every commit, this one marks that PV as
  // missing. kPrecondition: the device is in use, in a group, or has a signature after all. If the command is
  // killed, it may leave a PV without a group; such a PV does not count as blank.
  virtual Status Add(const AddPv& spec, const Call& call) = 0;

  // Holds the group unchanged. Waits until no LVM command changes it. kUnavailable: without running a command
  // it cannot be proven that the group read is the group committed. kUnsupported: this implementation cannot
  // hold groups.
  virtual Result<HeldGroup> Hold(const std::string& group, const Call& /*call*/) {
    return Error(Code::kUnsupported, "whoever runs commands for each read cannot hold " + group);
  }
};

}  // namespace quarry::lvm
