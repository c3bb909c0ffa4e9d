// Verbs that make and grow thin pools and the volumes in them. docs/thin.md has what LVM and the kernel do.
// The verbs for other volumes do the rest:
// - ExtendLv with the name of a pool grows its data, exactly where the step says.
// - RepairLv and MoveExtents take the names of a pool's hidden volumes (ThinDataName, ThinMetadataName in
//   names.h), whose legs are those of any RAID volume. The pool must be in the kernel. LimitRecovery takes
//   the name of the data only: give the metadata its limit when its volume is made.
// - RefreshLvs of the pool or of a volume in it, if that is active, takes the legs of data and metadata back.
// - ChangeTags, ActivateLvs, DeactivateLv and RemoveLvs take pools and thin volumes. ChangeTags takes the
// data of
//   a pool as well, but not the metadata.
// - ActivateLvs and DeactivateLv take the names of hidden volumes too: that part of the pool is then active
//   alone, and meanwhile LVM activates neither the pool nor a volume in it (kPrecondition).
//
// The kernel has a pool while the pool or a volume in it is active. RemoveLvs of a thin volume needs that,
// and LVM activates the pool for it. If that fails, as while disks of the pool are missing, the volume is
// gone from LVM's text all the same. Its removal from the pool stays queued until the next create or removal
// in it. RemoveLvs of a pool that has volumes fails with kPrecondition.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/geometry.h"
#include "lvm/layout.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// Makes a thin pool of two volumes, which keep their extents: `name` becomes the pool's data, and the pool
// gets its name. The start of the metadata volume is wiped. LVM makes no spare for the metadata. The pool is
// active if its data volume was.
//
// The releases of LVM leave tags and the activation-skip flag of the data volume in different places: those
// of the pool are to be set afterwards (ChangeTags, SkipActivation). If LVM is killed, the pool is made or
// not, and the metadata volume, or single legs of it, may be active: deactivate each before a repeat
// (DeactivateLv with the name of the volume, or of the leg). kNotFound: one of the two is not there.
// kPrecondition: one of the two is open, or `name` is a pool already, as after a first call.
struct MakeThinPool {
  std::string group;
  std::string name;
  std::string metadata;          // the volume that becomes the pool's metadata
  Bytes chunk_size;              // a multiple of 64 KiB, at most 1 GiB
  bool error_when_full = false;  // ThinPool::error_when_full

  static constexpr bool kReloadsTables = false;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const;
};

// Lets LVM add extents to a volume anywhere in the ranges that are named, whatever policy it was made with.
// The volume that becomes the metadata of a pool needs that before: there lvm2 2.03.31 goes by the policy of
// the volume, not by that of the command. OK if that is so already.
struct AllocateAnywhere {
  std::string group;
  std::string name;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "let extents be added anywhere to " + Object(); }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Sets LVM's activation-skip flag (see CreateLv). OK if it is set; LVM commits all the same.
struct SkipActivation {
  std::string group;
  std::string name;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "let boot services skip " + Object(); }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const { return kNoText; }
};

// Makes a blank thin volume, inactive, with the activation-skip flag. LVM activates the pool for that, and
// leaves it as it was.
//
// The caller must check that the volume is blank before anyone gets it: activate it, and compare its mapped
// sectors with 0. If the pool has a device under the id that LVM gives next, LVM takes that device and its
// bytes for the new volume, without a warning (docs/thin.md, section 5).
//
// kAlreadyExists if the name is taken, also by a first call that was killed. LVM's text then has the volume,
// but the pool may lack its device: until the next create or removal in the pool, which first does what is
// queued. So remove such a volume, and make it again. kNotFound: no such pool. kPrecondition: a part of the
// pool is active alone. kNoSpace: the pool is full.
struct CreateThinLv {
  std::string group;
  std::string name;
  std::string pool;
  Bytes size;  // LVM rounds it up to whole extents
  std::vector<std::string> tags;
  bool read_only = false;  // its device is, for every opener, whenever it is active

  static constexpr bool kReloadsTables = false;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 2; }  // with the message to the pool, and without
  Bytes MetadataText() const;
};

// Gives a thin volume this size, active or not. OK if it has it. kPrecondition: it is larger.
struct ExtendThinLv {
  std::string group;
  std::string name;
  Bytes size;  // LVM rounds it up to whole extents

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Grows the metadata of a thin pool, exactly where the step says. kNoSpace also if the extents do not follow
// the last ones, and the metadata was made without AllocateAnywhere.
struct ExtendPoolMetadata {
  std::string group;
  std::string name;   // of the pool
  Geometry geometry;  // of its metadata
  PlacementStep step;
  Bytes extent_size;  // of the group: LVM takes no extents here

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const;
};

// Activates pools and thin volumes although disks are missing. LVM has degraded activation for RAID volumes,
// but not for what is built on them: there ActivateLvs fails with kUnavailable. OK and other errors as for
// ActivateLvs.
//
// LVM puts error devices in the place of missing disks, whatever the type. So the caller must prove before
// that the pool may start (MayStartDegraded in thin_pool.h). Activate the pool itself as well: LVM removes
// volumes from it only if it is active then. RepairLv replaces the missing legs.
struct ActivateDegradedThin {
  std::string group;
  std::vector<std::string> names;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "activate without the missing disks " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 0; }
  Bytes MetadataText() const { return kNoText; }
};

// Gives a thin pool that is not active other metadata: those of `metadata`, a volume that the caller has
// filled. The two volumes change their names: what were the pool's metadata have the name of `metadata`
// afterwards, and lie where they were, with the tags that they had (docs/thin.md, section 8). The UUIDs stay
// with the extents.
//
// The pool and both volumes must not be active. A repetition would swap back, so read the group before.
// kNotFound: one of them is not there.
struct SwapPoolMetadata {
  std::string group;
  std::string name;  // of the pool
  std::string metadata;

  static constexpr bool kReloadsTables = false;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

}  // namespace quarry::lvm
