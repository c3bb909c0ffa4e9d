// Verbs that change the disks of a group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "base/units.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// 64 times LVM's default of 1 MiB, which is full after about 1,300 linear volumes (277 of raid1) without
// tags. Then every change fails, and the area cannot be enlarged later.
inline constexpr Bytes kMetadataSize{64 * 1024 * 1024};

// Makes the devices PVs and creates a group of them. The host's boot services leave the group inactive.
// kAlreadyExists: a group of this name exists. kPrecondition: a device is in use or has a signature; nothing
// was changed.
struct CreateGroup {
  std::string group;
  std::vector<std::string> devices;     // block devices; the caller has checked that they are blank
  Bytes extent_size;                    // a power of two
  Bytes metadata_size = kMetadataSize;  // per PV

  static constexpr bool kReloadsTables = false;
  std::string Text() const;
  std::string Object() const { return group; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Makes a device a PV and adds it to the group, in one commit. The caller has checked that the device is
// blank and unused. Works while a PV of the group is missing; like every commit, this one marks that PV as
// missing. kPrecondition: the device is in use, in a group, or has a signature after all. If the command is
// killed, it may leave a PV without a group; such a PV does not count as blank.
struct AddPv {
  std::string group;
  std::string device;                   // block device
  Bytes metadata_size = kMetadataSize;  // of the metadata area

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return fmt::format("add disk {} to volume group {}", device, group); }
  std::string Object() const { return group; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const { return kNoText; }
};

// Removes an empty PV from the group. The label stays, and shows that the disk is not blank. kPrecondition:
// the PV has extents in use, or is the last one. kUnavailable: the PV is not in the group.
struct RemovePv {
  std::string group;
  std::string device;  // path of the PV, as in the snapshot

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return fmt::format("take disk {} out of group {}", device, group); }
  std::string Object() const { return group + " " + device; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Ends the missing state of a PV that returned after the group was changed without it. Its data may be
// outdated, so refresh its raid volumes.
struct RestorePv {
  std::string group;
  std::string device;  // path of the PV, as in the snapshot

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return fmt::format("take disk {} back into group {}", device, group); }
  std::string Object() const { return group + " " + device; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Removes the missing PVs from the group for good. OK if none is missing. kPrecondition: a logical volume has
// extents on a missing PV.
struct DropMissingPvs {
  std::string group;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return fmt::format("take lost disks out of group {}", group); }
  std::string Object() const { return group; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Changes the PV's tags, and whether extents may be allocated on it, in one or two commits. OK if already so.
struct ChangePv {
  std::string group;
  std::string device;                      // path of the PV, as in the snapshot
  std::optional<bool> allocatable = true;  // nullopt: stays as it is
  std::vector<std::string> add_tags, remove_tags;

  static constexpr bool kReloadsTables = false;
  std::string Text() const;
  std::string Object() const { return group + " " + device; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

}  // namespace quarry::lvm
