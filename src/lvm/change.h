// Everything that Quarry lets LVM change, as values. Each value is one LVM verb. Its struct has everything
// about the verb: what it needs, the words of the command, what it is called in messages, how often it
// commits, and how much text it adds to the metadata area. Pure.
//
// A new verb is a struct, a name in the list below, and the fake's behavior. A struct without Text, Object,
// Arguments, Commits, MetadataText or kReloadsTables does not compile.
//
// Nothing that matters is left to LVM's defaults: sizes are extents, places are PV ranges, wiping is always
// stated, questions are answered in advance (-y), names follow "--".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "base/units.h"
#include "lvm/geometry.h"
#include "lvm/layout.h"
#include "lvm/lvm_command.h"

namespace quarry::lvm {

// "group/name", as LVM writes it.
std::string FullName(const std::string& group, const std::string& name);
// "group/a group/b", for messages.
std::string FullNames(const std::string& group, const std::vector<std::string>& names);
// "group/a", or "group (3 volumes)".
std::string Several(const std::string& group, const std::vector<std::string>& names);

// A verb whose text is not counted: it adds none, only temporary text, or little (a PV, tags of a PV).
inline constexpr Bytes kNoText{0};
// The commits that a verb makes when it succeeds.
using CommitCount = std::optional<uint64_t>;
// A verb whose commits are not known exactly, although it may commit.
inline constexpr std::nullopt_t kNotCounted = std::nullopt;

// Verbs that change the disks of a group.

// Enough metadata for about 10,000 linear volumes or 2,500 of raid1. The area cannot be enlarged later. LVM's
// default of 1 MiB is full after about 1,300 linear volumes (277 of raid1), and then every change fails.
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
  std::string Text() const {
    return fmt::format("create volume group {} of {}", group, fmt::join(devices, " "));
  }
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
  std::string device;  // path of the PV, as in the snapshot
  bool allocatable = true;
  std::vector<std::string> add_tags, remove_tags;

  static constexpr bool kReloadsTables = false;
  std::string Text() const {
    return fmt::format("let disk {} of group {} {}", device, group,
                       allocatable ? "be used again" : "get no more extents");
  }
  std::string Object() const { return group + " " + device; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Verbs that make, grow, remove and tag logical volumes.

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

  static constexpr bool kReloadsTables = false;
  std::string Text() const {
    return fmt::format("create logical volume {}: {}, {} extents on {}", Object(), geometry.Describe(),
                       step.logical_extents.value, fmt::join(step.pv_arguments, " "));
  }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  // With metadata legs LVM makes two commits: one for the volume while the metadata legs are zeroed, one to
  // hide them.
  CommitCount Commits() const { return geometry.has_metadata() ? 2 : 1; }
  Bytes MetadataText() const;
};

struct ExtendLv {
  std::string group;
  std::string name;
  Geometry geometry;
  PlacementStep step;

  static constexpr bool kReloadsTables = true;
  std::string Text() const {
    return fmt::format("extend logical volume {} by {} extents on {}", Object(), step.logical_extents.value,
                       fmt::join(step.pv_arguments, " "));
  }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const;
};

// OK if a volume is already gone. kPrecondition if the volume is active: Quarry never passes --force. Volumes
// that are built on it are removed with it. So check first, and give the group's sequence number of that
// check (as for DeactivateLv; 0: any).
//
// Of several volumes each is removed if possible, even if others fail; the error is that of one of them. If
// none fails, all are removed by one command and one commit.
struct RemoveLvs {
  std::string group;
  std::vector<std::string> names;
  uint64_t seqno = 0;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "remove logical volume " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
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
  std::string Text() const {
    return fmt::format("retag {}: add [{}], remove [{}]", Object(), fmt::join(add, " "),
                       fmt::join(remove, " "));
  }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return IsEmpty() ? 0 : 1; }
  Bytes MetadataText() const;
};

// Verbs that change a volume's devices in the kernel, not the volume itself.

// OK if already active. Of several volumes each is activated if possible, even if others fail; the error is
// that of one of them.
struct ActivateLvs {
  std::string group;
  std::vector<std::string> names;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "activate " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 0; }
  Bytes MetadataText() const { return kNoText; }
};

// OK if already inactive. kPrecondition if the volume is open.
struct DeactivateLv {
  std::string group;
  std::string name;
  // The sequence number that the group must have once LVM holds the lock, so that the caller's proof is still
  // valid; 0: any. If the number differs, nothing is done and the answer is OK all the same, so read the
  // group afterwards.
  uint64_t seqno = 0;

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return "deactivate " + Object(); }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 0; }
  Bytes MetadataText() const { return kNoText; }
};

// Makes the kernel reopen the disks of these volumes and accept failed raid legs again. Use it when disks
// have returned, under whatever name, or work again. Of several volumes each is refreshed if possible, even
// if others fail; the error is that of one of them. May commit: LVM repairs inconsistencies that it meets.
struct RefreshLvs {
  std::string group;
  std::vector<std::string> names;

  static constexpr bool kReloadsTables = true;
  std::string Text() const { return "refresh " + FullNames(group, names); }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Verbs that change where a volume lies, and how fast its legs are rebuilt.

// Replaces the legs of a raid volume that are on missing PVs, or on a PV that is being evacuated. The volume
// must be active. The kernel rebuilds the new legs afterwards. kNoSpace: the ranges have no space. The kernel
// does not read a leg on a PV being evacuated, so the volume has less redundancy until the new leg is
// rebuilt.
struct RepairLv {
  std::string group;
  std::string name;
  std::vector<std::string> pv_arguments;  // where the new legs go: "/dev/a:0-49", one for each leg
  std::string leave;                      // path of the PV to evacuate; empty: the missing PVs

  static constexpr bool kReloadsTables = true;
  std::string Text() const {
    return fmt::format("rebuild lost legs of {} on {}", Object(), fmt::join(pv_arguments, " "));
  }
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Limits the rate of resyncs and scrubs of raid volumes (Segment::max_recovery_rate), including those in
// progress. One commit for each volume; OK if the limit is already set.
struct LimitRecovery {
  std::string group;
  std::vector<std::string> names;
  Bytes rate;  // a second; 0: no limit

  static constexpr bool kReloadsTables = true;
  std::string Text() const {
    return fmt::format("let legs of {} be filled at {}", FullNames(group, names),
                       rate.value == 0 ? "any rate" : HumanBytes(rate) + "/s at most");
  }
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Moves extents of one logical volume, or of its legs, to another PV while the volume is in use. Returns when
// they are there. The volume must be active; it stays complete throughout. If the command is killed, it
// leaves a hidden volume "pvmove…" below, and the same verb resumes that move. LVM runs one move off a PV at
// a time. While there is another move, this verb resumes that one, whatever it moves, so check first.
struct MoveExtents {
  std::string group;
  std::string name;  // of the volume, not of a leg
  std::string from;  // "/dev/a:0-49"
  std::string to;    // the same number of extents: "/dev/b:10-59"

  static constexpr bool kReloadsTables = true;
  std::string Text() const { return fmt::format("move {} from {} to {}", FullName(group, name), from, to); }
  std::string Object() const { return FullName(group, name) + " " + from; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Aborts the move off this PV, no matter who started it, so check first. Segments that were already moved
// stay on the target PV; the others are back where they were. OK if there is no move.
struct AbortMove {
  std::string group;
  std::string device;  // path of the PV

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return fmt::format("call off the move off disk {} of group {}", device, group); }
  std::string Object() const { return group + " " + device; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

using Change = std::variant<CreateGroup, AddPv, RemovePv, RestorePv, DropMissingPvs, ChangePv, CreateLv,
                            ExtendLv, RemoveLvs, ChangeTags, ActivateLvs, DeactivateLv, RefreshLvs, RepairLv,
                            LimitRecovery, MoveExtents, AbortMove>;

// The group that is changed.
const std::string& GroupOf(const Change& change);
// One line for administrators: "create logical volume vg0/qabc…: raid1, 26 extents on /dev/a:0-26
// /dev/b:0-26".
std::string TextOf(const Change& change);
// The words of the lvm command. kInvalidArgument if a name is not one that LVM accepts as a plain name.
Result<Words> ArgumentsOf(const Change& change);
// A lower limit of the commits that LVM makes when the change succeeds. Quarry compares it with the sequence
// number to notice commits of other processes. If it is too low, Quarry takes its own commit for one of
// another process: it zeroes extents again, or a create fails. If it is too high, a commit of another process
// may go unnoticed. RemoveLvs may succeed without its commit; its caller reads the group afterwards.
uint64_t CommitsOf(const Change& change);
// The text that the change adds to the metadata area: an upper limit, except for verbs with kNoText.
Bytes MetadataTextOf(const Change& change);
// The metadata text of a volume, its legs and their metadata legs, without tags: an upper limit.
Bytes MetadataTextOf(const Geometry& geometry);

}  // namespace quarry::lvm
