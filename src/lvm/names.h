// Names and tags: the one place where LV names, our tags and device-mapper UUIDs are built and parsed.
//
// LV name of a volume that we made: 'q' + 26 lower-case base32 characters (128 random bits) = 27. LVM allows
// name + VG name + 3 < 128 and doubles '-' in device names; ours has none, and room is left for every
// sub-volume suffix ("_rimage_63" = 10). Tags may hold A-Z a-z 0-9 _ + . - / = ! : & #. All of ours begin
// with "quarry.".
//
// An LV that somebody else made keeps its name, also once it is adopted: its id is made of its uuid.
//
// Tags of a volume, format 1 (values escaped as by EscapeForTag; those with "?" may be absent):
//   quarry.creating | quarry.ready | quarry.erasing       its state: exactly one
//   quarry.v=1                                            format version
//   quarry.id= .name= .size= .profile= .access= .erase=   VolumeTags, field by field
//   quarry.fs=? .formatted=?                              file system wanted, and made
//   quarry.erased=?                                       how far the erasing is
//   quarry.scrubbed=?                                     when its legs were last compared, with what outcome
//   quarry.overruled=?                                    how often a person had it started from older legs
//   quarry.ephemeral=true?                                an inline volume: it ends when it is unpublished
// A value longer than one tag may be goes on in "<key>.1=", "<key>.2=", …
// Tags of a PV that is to leave its group, one of them:
//   quarry.leaving     what lies there is copied elsewhere
//   quarry.replacing   raid legs there are not read, but made anew from the others
//
// A volume in state creating bears quarry.creating alone; one commit then exchanges it for all the others.
//
// Upgrade rule: within a format version, tags may only be added, and a reader ignores (and keeps) keys that
// it does not know. A change of meaning or the loss of a tag raises quarry.v; a reader refuses versions it
// does not know rather than guess, and touches nothing of such a volume. quarry.creating means "half made,
// remove" for ever.
//
// lvcreate and lvconvert copy tags onto hidden rmeta sub-volumes: only the tags of LVs that are not hidden
// count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::lvm {

// A fresh random LV name.
std::string NewLvName();
bool IsOurLvName(std::string_view name);

// What LVM takes for the name of a group or LV on its command line: A-Z a-z 0-9 _ . + -, the first no hyphen,
// at most 127, not "." or "..". In particular no selector ("@tag") and no path.
bool IsLvmName(std::string_view name);

// Name of the metadata sub-volume that belongs to a raid leg: "x_rimage_3" → "x_rmeta_3"
// (lib/metadata/raid_manip.c names them in pairs). Empty if the name is no leg's.
std::string MetadataLvName(std::string_view image_name);

// Whether LVM calls a raid leg of this LV so, data or metadata: "x_rimage_3", "x_rmeta_3" of "x".
bool IsLegOf(std::string_view name, std::string_view lv_name);

// The name of ours at the head of a name of LVM's making: "q…_rmeta_3", "q…_rimage_0" → "q…". Empty if what
// comes before the suffix is no name of ours, or if there is no suffix.
std::string_view OurLvNameIn(std::string_view name);

// The volume of ours from which LVM took the leg, or the leg's metadata, of this name: LVM renames what it
// takes out of a raid volume to "q…_rimage_3_extracted", commits, and removes it in a commit of its own.
// Empty: no such name.
std::string_view TakenOutOf(std::string_view name);

// Life of a volume, as its tag says.
enum class VolumeState {
  kCreating,  // being made; after a crash: removed
  kReady,     // a volume
  kErasing,   // deleted by its owner; its bytes are being cleared, then it goes
};
std::string_view StateName(VolumeState state);

// What the tags of one of our LVs say. Everything that must survive a restart.
struct VolumeTags {
  VolumeState state = VolumeState::kReady;
  std::string id;          // volume id, as the CO stores it
  std::string co_name;     // name the CO gave at creation: any Unicode text
  Bytes size;              // size the CO was told, which may be less than the LV's
  std::string profile;     // canonical parameters, "type=raid1 mirrors=1 …" in tag-safe form, see engine
  std::string access;      // "block" or "mount"
  std::string fs_type;     // file system wanted (mount); empty for block
  std::string formatted;   // file system made on it, once it was made
  std::string erase;       // "zero", "discard", "none"
  std::string erased;      // while erasing: how far it is, in the engine's words; empty: not begun
  std::string scrubbed;    // when its legs were last compared, in the engine's words; empty: never
  uint64_t overruled = 0;  // how often a person had it started from legs that others may be newer than
  bool ephemeral = false;  // made by publishing it; co_name is the id that the CO knows it by
};

// The marker that a new LV bears until it is whole: one short tag, because lvcreate copies it to every rmeta.
inline constexpr std::string_view kCreatingTag = "quarry.creating";
inline constexpr std::string_view kLeavingTag = "quarry.leaving";
inline constexpr std::string_view kReplacingTag = "quarry.replacing";

// Tags for a volume that is whole. Every one begins with "quarry.", is tag-safe, and at most 1024 bytes.
// For VolumeState::kCreating use kCreatingTag instead.
std::vector<std::string> BuildTags(const VolumeTags& tags);
// The single tags that change later in life.
std::string StateTag(VolumeState state);
std::string SizeTag(Bytes size);
// Whether a volume of any format version bears this id, or this name, by its tags.
bool BearsId(const std::vector<std::string>& tags, std::string_view id);
bool BearsName(const std::vector<std::string>& tags, std::string_view co_name);
std::string FormattedTag(std::string_view fs_type);
std::string ErasedTag(std::string_view progress);   // short and of tag-safe characters
std::string ScrubbedTag(std::string_view outcome);  // likewise
std::string OverruledTag(uint64_t times);

// nullopt: not ours (no tag of ours). kCorrupt: ours, but a tag does not parse or one is missing; names it.
// kUnsupported: ours, in a format version that this build does not know.
Result<std::optional<VolumeTags>> ParseTags(const std::vector<std::string>& tags);

// Any bytes as tag-safe text and back: unreserved characters stay readable, others become "+XX" (hex).
std::string EscapeForTag(std::string_view text);
Result<std::string> UnescapeFromTag(std::string_view text);

// 1 to 32 characters A-Z a-z 0-9 _ - . and the first a letter or digit: what a pool may be called, since ids
// hold it.
bool IsPoolName(std::string_view name);

// "<pool>.<hash>.<lv name>". Short (pool <= 32, so <= 69), path-safe, stable for life. `node_hash` as
// NodeHash() gives it; empty: "<pool>.<lv name>", as earlier builds made all ids. To these "<pool>.<hash>" is
// the name of a pool that they do not have, so that they look for the volume in all they have, and find it.
std::string VolumeId(std::string_view pool, std::string_view lv_name, std::string_view node_hash = "");
// 8 hexadecimal digits that tell nodes apart: FNV-1a, 32 bits, of the node's id. Part of ids: never to
// change.
std::string NodeHash(std::string_view node_id);
// The same for an LV that somebody else made: "<pool>.f<uuid without hyphens>" (33 characters after the dot
// where ours have 27; <= 66). It stays when the LV is adopted, renamed or released. nullopt: the uuid is not
// of LVM's usual form.
std::optional<std::string> ForeignVolumeId(std::string_view pool, std::string_view lv_uuid);
struct VolumeIdParts {
  std::string pool;
  std::string lv_name;         // of a volume that we made; else empty
  std::string lv_uuid;         // of an LV that somebody else made, without hyphens; else empty
  std::string node_hash = {};  // of the node that made it; empty: the id does not say
};
// nullopt: not an id that we ever gave out.
std::optional<VolumeIdParts> ParseVolumeId(std::string_view id);

// Those of `tags` that are ours, whether this build knows them or not: what goes when a volume is given up.
std::vector<std::string> TagsOfOurs(const std::vector<std::string>& tags);

// csilvm's volumes (github.com/mesosphere/csilvm): LVs called "csilv…", the CO's name in the tag "VN.<name>",
// or "VN+<base64, URL alphabet, no padding>" where the name has other characters. nullopt: none of its
// volumes. kCorrupt: one of its volumes, but the tag is missing, doubled or no base64.
Result<std::optional<std::string>> CsilvmName(std::string_view lv_name, const std::vector<std::string>& tags);

// device-mapper's UUID of an active LV: "LVM-" + both UUIDs without hyphens (lib/activate/dev_manager.c's
// rule).
std::string DmUuid(std::string_view vg_uuid, std::string_view lv_uuid);
// What all of these begin with.
inline constexpr std::string_view kDmUuidPrefix = "LVM-";
// Whether it is that of the logical volume itself, of whatever group. `lv_uuid`: with or without hyphens.
bool IsDmUuidOf(std::string_view dm_uuid, std::string_view lv_uuid);
// device-mapper's name: hyphens doubled, joined by one.
std::string DmName(std::string_view vg_name, std::string_view lv_name);

}  // namespace quarry::lvm
