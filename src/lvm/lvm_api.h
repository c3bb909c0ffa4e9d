// The seam to LVM. The only code that runs LVM commands is behind it.
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

// How the first extents of a new volume are treated by lvcreate.
enum class Wipe {
  kSignaturesAndFirstBlock,  // -Wy -Zy: extents of unknown past
  kNone,                     // -Wn -Zn: extents known to be zero
};

struct CreateLv {
  std::string group;
  std::string name;
  Geometry geometry;
  PlacementStep step;  // where, and how many extents
  std::vector<std::string> tags;
  Wipe wipe = Wipe::kSignaturesAndFirstBlock;
  bool assume_in_sync =
      false;  // --nosync: only over extents known to be zero; ignored for raid6, which always syncs
  Bytes max_recovery_rate;  // as Segment; ignored for types without redundancy
  bool activate =
      true;  // false: stays inactive, with Wipe::kNone only; metadata legs are cleared all the same
};

struct ExtendLv {
  std::string group;
  std::string name;
  Geometry geometry;
  PlacementStep step;
};

// New legs for a raid volume in place of those that lie on missing PVs, or on one that is to be left.
struct RepairLv {
  std::string group;
  std::string name;
  std::vector<std::string> pv_arguments;  // where they go: "/dev/a:0-49", one for each leg
  std::string leave;                      // path of the PV to be left; empty: the missing ones
};

// Extents of one logical volume, or of its legs, that go to another PV while it is in use.
struct MoveExtents {
  std::string group;
  std::string name;  // of the volume that is no leg
  std::string from;  // "/dev/a:0-49"
  std::string to;    // as many extents: "/dev/b:10-59"
};

struct PvChange {
  std::string group;
  std::string device;  // path of the PV, as the snapshot has it
  bool allocatable = true;
  std::vector<std::string> add_tags, remove_tags;
};

// Room for the metadata of some 10,000 linear volumes or 2,500 of raid1. It cannot be enlarged later, and
// LVM's default of 1 MiB is full after about 1,300 (277 of raid1): from then on every change fails.
inline constexpr Bytes kMetadataSize{64 * 1024 * 1024};

struct CreateGroup {
  std::string name;
  std::vector<std::string> devices;     // block devices; the caller has made sure that they are blank
  Bytes extent_size;                    // a power of two
  Bytes metadata_size = kMetadataSize;  // per PV
};

struct AddPv {
  std::string group;
  std::string device;                   // block device
  Bytes metadata_size = kMetadataSize;  // of its metadata area
};

// Gone when it is destroyed.
class GroupHold {
 public:
  virtual ~GroupHold() = default;
};

// A group that stays as it is: as long as `hold` exists nobody can commit a change of it, or activate one of
// its volumes. Every LVM of this host waits meanwhile, so it is for moments only: hold it for no command, no
// turn and no pause.
struct HeldGroup {
  Snapshot snapshot;
  std::vector<std::string> silent;  // uuids of PVs that gave no answer just now
  std::unique_ptr<GroupHold> hold;
};

// Mutations are complete and durable (flushed to every PV in use) when they return OK. A failure means that
// nothing or everything may have happened: read the snapshot and look. Calls may come from any thread; who
// may change a group when is the caller's business (one writer per group), LVM's own lock is the last line.
//
// Errors common to all: kNotFound (no such group or LV), kTimeout / kCancelled (killed; outcome unknown),
// kNoSpace (no room, also in the metadata area: the message says which), kPrecondition (in use), kUnavailable
// (a lock or a missing PV stands in the way), kIo, kInternal (LVM's own words are in the message).
class LvmApi {
 public:
  virtual ~LvmApi() = default;

  // Makes PVs of the devices and a group of the PVs, which the host's boot services leave inactive.
  // kAlreadyExists: there is a group of this name. kPrecondition: a device is in use or bears a signature;
  // nothing was changed.
  virtual Status Create(const CreateGroup& spec, const Call& call) = 0;
  // The group as it is now. kNotFound if LVM looked and there is none of that name.
  virtual Result<Snapshot> Read(const std::string& group, const Call& call) = 0;

  // Creates and, if so asked, activates. kAlreadyExists if the name is taken.
  virtual Status Create(const CreateLv& spec, const Call& call) = 0;
  virtual Status Extend(const ExtendLv& spec, const Call& call) = 0;
  // Gone already is OK. kPrecondition if it is active. What stands on it goes along: so look before, and say
  // as of which sequence number (as Deactivate; 0: any). Of several, each that can be removed is, also if
  // others fail: the error is that of one. All in one command and one commit, if none fails.
  virtual Status Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                        const Call& call) = 0;
  // One commit. Adding a tag that is there, or removing one that is not, is OK.
  virtual Status ChangeTags(const std::string& group, const std::string& name,
                            const std::vector<std::string>& add, const std::vector<std::string>& remove,
                            const Call& call) = 0;
  // Already so is OK. Of several, each that can be activated is, also if others fail: the error is that of
  // one.
  virtual Status Activate(const std::string& group, const std::vector<std::string>& names,
                          const Call& call) = 0;
  // Already so is OK. kPrecondition if it is open. `seqno`: what the group's sequence number must be once LVM
  // has the lock, for what was proven to be still true; 0: anything. Is it another, nothing is done, and the
  // answer is OK all the same: read the group afterwards.
  virtual Status Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                            const Call& call) = 0;

  // Has the kernel open the disks of these volumes anew, and take back raid legs that it gave up: for disks
  // that are back, under whatever name, or are sound again. Of several, each that can be refreshed is, also
  // if others fail: the error is that of one.
  virtual Status Refresh(const std::string& group, const std::vector<std::string>& names,
                         const Call& call) = 0;
  // The volume must be active. The kernel fills the new legs afterwards, by itself. kNoSpace: there is no
  // room in those ranges. A leg that is to be left is not read: until the new one is filled the volume can do
  // without as many legs less.
  virtual Status Repair(const RepairLv& spec, const Call& call) = 0;
  // How fast legs of raid volumes are filled and compared from now on (Segment::max_recovery_rate), also
  // where that is going on. One commit for each volume; already so is OK.
  virtual Status LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                               const Call& call) = 0;
  // Makes a PV that came back after the group was changed without it a full member again. `device` as the
  // snapshot has it. What is on it is as old as it is: refresh the raid volumes that it bears.
  virtual Status RestorePv(const std::string& group, const std::string& device, const Call& call) = 0;
  // Takes the PVs that cannot be seen out of the group, for ever; there are none: OK. kPrecondition: a
  // logical volume has extents there.
  virtual Status DropMissingPvs(const std::string& group, const Call& call) = 0;

  // Whether extents may be taken there, and tags, in one or two commits. Already so is OK.
  virtual Status ChangePv(const PvChange& spec, const Call& call) = 0;
  // Copies the extents and returns when they are elsewhere: their volume stays whole, and in use, whatever
  // happens in between. Killed, it leaves a hidden volume "pvmove…" below; the same call goes on with that.
  // The volume must be active. LVM has one move off a PV at a time: while there is another, it is that which
  // goes on, whatever it moves, so look before.
  virtual Status Move(const MoveExtents& spec, const Call& call) = 0;
  // Calls off the move off this PV, whosever it is, so look before: what is moved is back where it was. None:
  // OK.
  virtual Status AbandonMove(const std::string& group, const std::string& device, const Call& call) = 0;
  // Takes an empty PV out of the group. Its label stays, which tells others that the disk is not blank.
  // kPrecondition: something lies on it, or it is the last one. kUnavailable: it is not in the group.
  virtual Status RemovePv(const std::string& group, const std::string& device, const Call& call) = 0;

  // LVM's version ("2.03.16"). kNotFound if LVM is not installed.
  virtual Result<std::string> Version(const Call& call) = 0;

  // Makes a PV of a device and adds it to the group, in one commit. The caller has made sure that it is blank
  // and nobody's. Works also while a PV of the group is missing, which is marked so then, as by any commit.
  // kPrecondition: it is in use, in a group, or bears a signature after all. Killed in between it may leave a
  // PV of no group, which nobody takes for blank.
  virtual Status Add(const AddPv& spec, const Call& call) = 0;

  // The group, kept as it is. Waits until no LVM changes it. kUnavailable: it cannot be proven without a
  // command that what was read is what is committed. kUnsupported: not by this implementation.
  virtual Result<HeldGroup> Hold(const std::string& group, const Call& /*call*/) {
    return Error(Code::kUnsupported, "whoever runs commands for each read cannot hold " + group);
  }
};

}  // namespace quarry::lvm
