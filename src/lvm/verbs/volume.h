// Verbs that make, grow, remove and tag logical volumes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/geometry.h"
#include "lvm/layout.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// What lvcreate does to the first extents of a new volume.
enum class Wipe {
  kSignaturesAndFirstBlock,  // -Wy -Zy: for extents of unknown content
  kNone,                     // -Wn -Zn: for extents known to be zero
};

// Creates a volume, and activates it if requested. kAlreadyExists if the name is taken.
//
// The new LV gets LVM's activation-skip flag. The host's boot services and hotplug rules (vgchange -aay) then
// do not activate it; only ActivateLvs does. Unlike --setautoactivation, lvcreate accepts this flag for raid.
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
  // The group's sequence number when the extents were last known to be free and zero; 0: any. If another
  // process has committed since, nothing is created: kBusy, which no other failure has. lvcreate cannot
  // compare numbers, so only FreshLvm can do this: it compares while it holds LVM's lock. Others:
  // kUnsupported. Only for types that CanCreateUnderLock().
  uint64_t seqno = 0;
  // LVM's lock of the group, which the caller holds for writing. lvcreate keeps this descriptor until it
  // ends, and takes no lock itself. Unlocked once it has succeeded, before the disks are flushed. -1:
  // lvcreate takes the lock.
  int lock_fd = -1;

  static constexpr bool kReloadsTables = false;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const;
  Bytes MetadataText() const;
};

// Whether lvcreate makes this type in one commit, and under a lock that its caller holds. It refuses
// --nolocking for every RAID type (tools/lvcreate.c), raid0 among them.
bool CanCreateUnderLock(const Geometry& geometry);

struct ExtendLv {
  std::string group;
  std::string name;
  Geometry geometry;
  PlacementStep step;

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const;
};

// OK if a volume is already gone. kPrecondition if the volume is active: Quarry never passes --force. Volumes
// that are built on it are removed with it, but for those in a thin pool (thin.h). So check first, and give
// the group's sequence number of that check (as for DeactivateLv; 0: any).
//
// Of several volumes each is removed if possible, even if others fail; the error is that of one of them. If
// none fails, all are removed by one command and one commit.
struct RemoveLvs {
  std::string group;
  std::vector<std::string> names;
  uint64_t seqno = 0;
  bool thin = false;  // all of them are thin volumes, for each of which LVM commits twice (thin.h)

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "remove logical volume " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return thin ? 2 * names.size() : 1; }
  Bytes MetadataText() const { return kNoText; }
};

// One commit. OK if a tag to add is present, or a tag to remove is absent. Nothing is run if both lists are
// empty.
struct ChangeTags {
  std::string group;
  std::string name;
  std::vector<std::string> add;
  std::vector<std::string> remove;

  static constexpr bool kReloadsTables = false;
  bool IsEmpty() const { return add.empty() && remove.empty(); }
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return IsEmpty() ? 0 : 1; }
  Bytes MetadataText() const;
};

// The metadata text of a volume, its legs and their metadata legs, without tags: an upper limit.
Bytes MetadataTextOf(const Geometry& geometry);

}  // namespace quarry::lvm
