// Names and tags: the only place where LV names, Quarry's tags and device-mapper UUIDs are built and parsed.
//
// Name of an LV that Quarry made: 'q' + 26 lower-case base32 characters (128 random bits) = 27. LVM allows LV
// name + VG name + 3 < 128, and doubles '-' in device names; our names have none. That leaves space for every
// sub-volume suffix ("_rimage_63" = 10). Tags may hold A-Z a-z 0-9 _ + . - / = ! : & #. All Quarry tags begin
// with "quarry.".
//
// An unmanaged LV keeps its name, even after adoption. Its volume id is made of its uuid.
//
// Tags of a volume or snapshot. Values are escaped as by EscapeForTag. Tags with "?" may be absent.
// clang-format off
//   quarry.creating | quarry.ready | quarry.erasing       the state: exactly one of them
//   quarry.v=1                                            format version; 2 for a snapshot in state ready,
//                                                         3 for a thin store and all that is in it
//   quarry.id= .name= .size= .profile= .access= .erase=   VolumeTags, field by field
//   quarry.fs=? .formatted=?                              file system requested, and made
//   quarry.erased=?                                       erase progress
//   quarry.copying=?                                      a copy that is not whole yet, and the boot
//   quarry.scrubbed=?                                     time and result of the last scrub
//   quarry.overruled=?                                    how often it was started from outdated legs; of a thin
//                                                         store: its data
//   quarry.overruledmeta=?                                the same of a thin store's metadata
//   quarry.scrubbedmeta=?                                 as .scrubbed, of a thin store's metadata; .scrubbed is
//                                                         then about its data
//   quarry.ephemeral=true?                                an inline volume: removed when it is unpublished
//   quarry.asked=?                                        size that the caller asked for, if less than .size
//   quarry.source=?                                       id of the volume that it is a copy or snapshot of
//   quarry.restored=?                                     id of the snapshot that it was made from
//   quarry.mount=? .mountopts=?                           where quarryd itself mounts it, and how
//   quarry.s3=?                                           a bucket, and its parameters
//   quarry.cow=true?                                      the store of a copy (VolumeTags::cow)
//   quarry.kind=snapshot?                                 a snapshot, with these two as well:
//   quarry.cut= .length=                                  time of the cut, and number of bytes that were cut
//   quarry.kind=thin?                                     a volume in a thin store
//   quarry.kind=thinsnapshot?                             a snapshot in a thin store, with .cut, .length and
//   quarry.mapped=                                        the bytes of the store that it can have at most
//   quarry.group=? .groupname=? .groupmembers=?           of a snapshot: the group snapshot of which it is a
//                                                         member, its name, and how many members there are
//   quarry.kind=store?                                    a thin store: .name is its name in the pool, .profile
//                                                         the layout of its data
//   quarry.cuts=true?                                     of a thin store: snapshots were made in it
//   quarry.kept=?                                         of a thin store whose metadata are being exchanged: the
//                                                         LV UUID of the former ones
//   quarry.replaces=                                      no volume: made to become the metadata of a thin store,
//                                                         instead of those with this LV UUID
// A value too long for one tag continues in "<key>.1=", "<key>.2=", …
// Tags of a PV that is being evacuated, one of them:
//   quarry.leaving                                        its extents are copied to other PVs
//   quarry.replacing                                      its raid legs are rebuilt from the others, not read
// Tag of a PV whose raid legs failed again after each attempt to take them back:
//   quarry.dropping=                                      when that was seen last, in seconds since 1970
// clang-format on
//
// A volume in state creating has quarry.creating only. One commit then replaces it by all the other tags.
//
// Upgrade rule: within a format version tags may only be added. A reader ignores (and keeps) unknown keys. A
// change of meaning or the loss of a tag raises quarry.v. A reader refuses a version that it does not know,
// and does not touch such a volume. quarry.creating means "half made, remove" in every version. A ready
// snapshot has version 2, because builds that know no snapshots would take it for a volume. A snapshot that
// is being filled or erased has version 1, so that any build erases it. A thin store, its volumes and its
// snapshots have version 3 in each state: a build that knows no stores can neither erase nor start them as it
// must be done, and keeps its hands off. A bucket has version 1: a build that knows no buckets serves its
// volume as one that nobody asks for, mounts it at most, and erases it when it is deleted.
//
// lvcreate and lvconvert copy tags onto hidden rmeta sub-volumes: only the tags of LVs that are not hidden
// count.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::lvm {

// A new random LV name.
std::string NewLvName();
bool IsOurLvName(std::string_view name);

// Whether LVM accepts this as the name of a group or LV on its command line: A-Z a-z 0-9 _ . + -, not
// starting with a hyphen, at most 127 characters, not "." or "..". Selectors ("@tag") and paths are excluded.
bool IsLvmName(std::string_view name);

// Name of a raid leg's metadata sub-volume: "x_rimage_3" → "x_rmeta_3" (lib/metadata/raid_manip.c names them
// in pairs). Empty if the name is not a leg's.
std::string MetadataLvName(std::string_view image_name);

// Whether LVM gives this name to a leg of the LV, data or metadata: "x_rimage_3", "x_rmeta_3" of "x".
bool IsLegOf(std::string_view name, std::string_view lv_name);

// Names that LVM gives to the hidden volumes of a thin pool: "x_tdata" with its data, "x_tmeta" with its
// metadata.
std::string ThinDataName(std::string_view pool);
std::string ThinMetadataName(std::string_view pool);

// Whether LVM gives this name to the spare that a group has for the metadata of its thin and cache pools
// ("lvol0_pmspare"). LVM itself knows the spare by its name (lib/format_text/import_vsn1.c).
bool IsPoolSpareName(std::string_view name);

// Whether LVM gives this name to the data or the metadata of a thin pool, as these two do.
bool IsThinPartName(std::string_view name);

// Name of a volume that is made to become the metadata of this thin pool. The former metadata get it once
// that has happened: "meta0_q…". `number`: tells several apart.
std::string KeptMetadataName(std::string_view pool, int number);
// The name of this form at the start of `name`, which is such a name or that of a leg of such a volume:
// "meta0_q…_rmeta_0" → "meta0_q…". Empty if `name` is neither.
std::string_view KeptMetadataNameIn(std::string_view name, std::string_view pool);
// The tag of a volume that is made to replace the metadata with this LV UUID. It is taken off before LVM
// exchanges the two, so the metadata of a pool never have it. Replaces: the UUID in the tag; empty: it has
// none.
std::string ReplacesTag(std::string_view lv_uuid);
std::string Replaces(const std::vector<std::string>& tags);
// The tag of a thin store while its metadata are exchanged: those with this LV UUID are kept. KeptTags: all
// tags of this kind. KeptMetadata: the UUID in such a tag; empty: `tag` is another one.
std::string KeptTag(std::string_view lv_uuid);
std::vector<std::string> KeptTags(const std::vector<std::string>& tags);
std::string KeptMetadata(std::string_view tag);

// The Quarry name at the start of a name that LVM made: "q…_rmeta_3", "q…_rimage_0" → "q…". Empty if the name
// has no suffix, or if the part before the suffix is not a Quarry name.
std::string_view OurLvNameIn(std::string_view name);

// The Quarry volume that LVM extracted this leg, or this leg's metadata, from. LVM renames an extracted leg
// to "q…_rimage_3_extracted", commits, and removes the leg in a commit of its own. Empty if the name is not
// of this form.
std::string_view TakenOutOf(std::string_view name);

// State of a volume, as its tag says.
enum class VolumeState {
  kCreating,  // being created; removed after a crash
  kReady,     // in service
  kErasing,   // deleted by its owner; its bytes are being erased, then the LV is removed
};
std::string_view StateName(VolumeState state);

// The content of a Quarry LV's tags: everything that must survive a restart.
struct VolumeTags {
  VolumeState state = VolumeState::kReady;
  std::string id;             // volume id, as the container orchestrator (CO) stores it
  std::string co_name;        // name the CO gave at creation: any Unicode text
  Bytes size;                 // size the CO was told, which may be less than the LV's
  std::string profile;        // canonical parameters, "type=raid1 mirrors=1 …", tag-safe; see engine
  std::string access;         // "block", "mount" or "any"
  std::string fs_type;        // requested file system (mount); empty for block
  std::string formatted;      // file system on the volume; empty until it is made
  std::string erase;          // "zero", "discard", "none"
  std::string erased;         // erase progress, in the engine's format; empty: not started
  std::string scrubbed;       // time of the last scrub, in the engine's format; empty: never
  uint64_t overruled = 0;     // how often an administrator started it from possibly outdated legs
  bool ephemeral = false;     // created by publishing; co_name is then the id that the CO uses
  Bytes asked = {};           // the size that the CO asked for, if that is less than `size`; 0: it is `size`
  std::string source = {};    // id of the volume that it is a copy or snapshot of; empty: of none
  std::string restored = {};  // id of the snapshot that it was made from; empty: of none
  std::string mount_point = {};    // where quarryd mounts it at each start; empty: nowhere
  std::string mount_options = {};  // for `mount_point`, separated by commas
  std::string s3 = {};             // parameters of the bucket that it is, in src/bucket's format; empty: none
  bool snapshot = false;           // a snapshot, not a volume; `id` and `co_name` are then the snapshot's
  uint64_t cut = 0;   // of a snapshot: nanoseconds since 1970 at which the bytes were as they are in it
  Bytes length = {};  // of a snapshot: the bytes of its source; the rest of the LV is of no meaning
  // Keeps what the volume `source` had when a copy of it began, while the volume is in use (verbs/cow.h). Its
  // state is always kErasing: it is of use to the process that copies, and to no other.
  bool cow = false;
  bool thin = false;                   // a volume in a thin store
  bool store = false;                  // a thin store, not a volume; `co_name` is then its name in the pool
  uint64_t overruled_metadata = 0;     // of a store; `overruled` is then about its data
  std::string scrubbed_metadata = {};  // of a store; `scrubbed` is then about its data
  // Of a snapshot in a thin store (thin and snapshot): the bytes that it had when it was cut; until it is
  // ready, the most that it may have. It never gets more.
  Bytes mapped = {};
  // Of a member of a group snapshot. The group is there if as many members are ready as `group_members` says.
  std::string group = {};  // its id; empty: not a member
  std::string group_name = {};
  uint64_t group_members = 0;
  bool cuts = false;  // of a store: snapshots were made in it
  // Of a copy that is not whole yet, in state kErasing, of which nothing was erased: the kernel's id of the
  // boot in which it was begun. Of no meaning in any other state.
  std::string copying = {};
};

// Marks a new LV until it is complete. The tag is short because lvcreate copies it to every rmeta.
inline constexpr std::string_view kCreatingTag = "quarry.creating";
inline constexpr std::string_view kLeavingTag = "quarry.leaving";
inline constexpr std::string_view kReplacingTag = "quarry.replacing";

// Of a PV: legs on it failed again and again, last seen at `when`. DroppingTags: all tags of this kind,
// readable or not. DroppedAt: nullopt if there is none that can be read; the latest if there are several.
std::string DroppingTag(std::chrono::sys_seconds when);
std::vector<std::string> DroppingTags(const std::vector<std::string>& tags);
std::optional<std::chrono::sys_seconds> DroppedAt(const std::vector<std::string>& tags);

// Tags for a complete volume. Each begins with "quarry.", is tag-safe, and has at most 1024 bytes. For
// VolumeState::kCreating use kCreatingTag instead.
std::vector<std::string> BuildTags(const VolumeTags& tags);
// The tags that change during a volume's life. StateTags: all tags that only LVs in this state have;
// `thick_snapshot`: of a snapshot that is in no thin store.
std::string StateTag(VolumeState state);
std::vector<std::string> StateTags(VolumeState state, bool thick_snapshot);
std::string SizeTag(Bytes size);
std::string AskedTag(Bytes size);
// Whether the tags of a volume or snapshot contain this id, or this name. Works for every format version.
bool BearsId(const std::vector<std::string>& tags, std::string_view id);
bool BearsName(const std::vector<std::string>& tags, std::string_view co_name);
// Whether the tags are of a member of the group snapshot with this id; if `id` is empty, with this name.
bool BearsGroup(const std::vector<std::string>& tags, std::string_view id, std::string_view name);
std::string CutTag(uint64_t cut);
std::string MappedTag(Bytes mapped);
// Of a store in which snapshots were made.
std::string CutsTag();
// Of a copy that is not whole yet. `boot`: the kernel's id of the boot (BootId).
std::string CopyingTag(std::string_view boot);
std::string FormattedTag(std::string_view fs_type);
std::string ErasedTag(std::string_view progress);   // short and tag-safe
std::string ScrubbedTag(std::string_view outcome);  // short and tag-safe
std::string ScrubbedMetadataTag(std::string_view outcome);
std::string OverruledTag(uint64_t times);
std::string OverruledMetadataTag(uint64_t times);
// Whether these are the tags of a copy's store (VolumeTags::cow).
bool IsCowStore(const std::vector<std::string>& tags);
// Empty for an empty `mount_point`.
std::vector<std::string> MountTags(std::string_view mount_point, std::string_view options);

// nullopt: not a Quarry volume (no Quarry tag). kCorrupt: a Quarry volume, but a tag is missing or does not
// parse; the message names the tag. kUnsupported: a Quarry volume in a format version that this build does
// not know.
Result<std::optional<VolumeTags>> ParseTags(const std::vector<std::string>& tags);

// Any bytes as tag-safe text, and back. Unreserved characters stay readable, others become "+XX" (hex).
std::string EscapeForTag(std::string_view text);
Result<std::string> UnescapeFromTag(std::string_view text);

// Whether a pool may have this name: 1 to 32 characters A-Z a-z 0-9 _ - . beginning with a letter or digit.
// Volume ids contain the pool name.
bool IsPoolName(std::string_view name);

// "<pool>.<hash>.<lv name>". Short (pool <= 32, so <= 69), path-safe, stable for life. `node_hash` as
// NodeHash() returns it; empty: "<pool>.<lv name>", the form of all ids of earlier builds. An earlier build
// takes "<pool>.<hash>" for the name of a pool that it does not have. It then searches all its pools, and
// finds the volume.
std::string VolumeId(std::string_view pool, std::string_view lv_name, std::string_view node_hash = "");
// 8 hexadecimal digits that tell nodes apart: FNV-1a, 32 bits, of the node's id. Part of volume ids, so this
// must never change.
std::string NodeHash(std::string_view node_id);
// The id of an unmanaged LV: "<pool>.f<uuid without hyphens>" (33 characters after the dot where a Quarry id
// has 27; <= 66). The id stays the same when the LV is adopted, renamed or released. nullopt: the uuid does
// not have LVM's usual form.
std::optional<std::string> ForeignVolumeId(std::string_view pool, std::string_view lv_uuid);
struct VolumeIdParts {
  std::string pool;
  std::string lv_name;         // of an LV that Quarry made; else empty
  std::string lv_uuid;         // of an LV that Quarry did not make, without hyphens; else empty
  std::string node_hash = {};  // of the node that made the volume; empty: not in the id
};
// nullopt: no build ever issued such an id.
std::optional<VolumeIdParts> ParseVolumeId(std::string_view id);

// The Quarry tags among `tags`, known to this build or not: the tags to remove when a volume is released.
std::vector<std::string> TagsOfOurs(const std::vector<std::string>& tags);

// Volumes of csilvm (github.com/mesosphere/csilvm) are LVs called "csilv…". The CO's name is in the tag
// "VN.<name>", or "VN+<base64, URL alphabet, no padding>" if the name has other characters. nullopt: not a
// csilvm volume. kCorrupt: a csilvm volume, but the tag is missing, doubled or not base64.
Result<std::optional<std::string>> CsilvmName(std::string_view lv_name, const std::vector<std::string>& tags);

// device-mapper's UUID of an active LV: "LVM-" + VG UUID + LV UUID, both without hyphens (the rule of
// lib/activate/dev_manager.c).
std::string DmUuid(std::string_view vg_uuid, std::string_view lv_uuid);
// The prefix of all these UUIDs.
inline constexpr std::string_view kDmUuidPrefix = "LVM-";
// While a snapshot (COW) lies on an LV, LVM puts devices between (lib/activate/dev_manager.c). UUIDs of the
// one below the LV that has this UUID, and of the one on the extents of the snapshot's LV that has it.
std::string DmUuidBelow(std::string_view dm_uuid);
std::string DmUuidOfStore(std::string_view dm_uuid);
// UUID of the device of a hidden part of a thin pool, if `name` (the part's) is that of one (IsThinPartName);
// otherwise `dm_uuid`. LVM marks these devices, but not those of RAID legs (lib/activate/dev_manager.c,
// build_dm_uuid).
std::string DmUuidOfPart(std::string_view dm_uuid, std::string_view name);
// UUIDs of the pool itself, and of the layer above it that the pool's LV has once there was a thin volume;
// and the device's name without what marks it as one of a pool's: "vg-p-tpool", "vg-p_tdata" → "vg-p".
std::string DmUuidOfPool(std::string_view dm_uuid);
std::string DmUuidAbovePool(std::string_view dm_uuid);
std::string_view WithoutPoolLayer(std::string_view dm_name);
// The device's name without what marks it as one of these two: "vg-x-real" → "vg-x".
std::string_view WithoutLayer(std::string_view dm_name);
// Whether `dm_uuid` belongs to the LV itself, in whatever group. `lv_uuid` with or without hyphens.
bool IsDmUuidOf(std::string_view dm_uuid, std::string_view lv_uuid);
// device-mapper's name: both names with hyphens doubled, joined by one hyphen.
std::string DmName(std::string_view vg_name, std::string_view lv_name);

}  // namespace quarry::lvm
