// What callers ask of the engine and what it answers: plain structs, no CSI version in them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/path.h"
#include "base/result.h"
#include "base/units.h"
#include "engine/model/scrub_outcome.h"
#include "lvm/layout.h"
#include "udev/disk_health.h"
#include "udev/udev_api.h"

namespace quarry::engine {

enum class AccessType { kBlock, kMount };

// The access modes of CSI, less UNKNOWN (csi-spec section 3.3).
enum class AccessMode {
  kSingleNodeWriter,
  kSingleNodeReaderOnly,
  kMultiNodeReaderOnly,
  kMultiNodeSingleWriter,
  kMultiNodeMultiWriter,
  kSingleNodeSingleWriter,
  kSingleNodeMultiWriter,
};

struct Capability {
  AccessType access = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  std::string fs_type;                       // mount only; empty: the default
  std::vector<std::string> mount_flags;      // mount only; may bear secrets, never logged
  std::optional<uint32_t> mount_group = {};  // mount only: the gid that all of it is to belong to
};

// 0: not set. The edge has made sure that required <= limit where both are set, and that neither is negative.
struct CapacityRange {
  Bytes required;
  Bytes limit;
};

using Parameters = std::map<std::string, std::string>;

// What ails a volume, in the words of CSI's health RPCs (csi-spec, package csi.v1 since 1.13).
enum class Problem {
  kDegraded,      // serves, with less redundancy than its profile promises
  kInaccessible,  // some of it, or all, cannot be read or written now
};
struct Ailment {
  Problem problem;
  std::string reason;   // one CamelCase word, once in a volume: "DiskMissing"
  std::string message;  // for people, with the remedy
};
struct Health {
  std::vector<Ailment> ailments;  // none: it is well
  std::string note;               // what goes on though nothing is amiss: "syncing, 40 %"; may be empty
  std::optional<uint32_t> percent = {};  // of what goes on: a rebuild, a sync, a check
};

// A volume that is whole, as its tags tell it.
struct Volume {
  std::string id;
  std::string name;  // as the CO called it
  Bytes size;
  std::string pool;
  std::map<std::string, std::string> context;  // immutable facts only: byte-identical for ever
  std::optional<Health> health = {};           // where it was asked for
};

struct CreateRequest {
  std::string name;
  CapacityRange range;
  std::vector<Capability> capabilities;  // at least one
  Parameters parameters;
  // The caller asks other nodes once it hears kNoSpace, and then forgets this one: whatever this node lacks
  // is kNoSpace, but only where nothing of that name is here or may yet come of it.
  bool elsewhere = false;
};

struct CreateResult {
  Volume volume;
  bool created = false;  // false: it was there already
};

struct DeleteResult {
  bool deleted = false;  // false: there was none
};

struct ValidateRequest {
  std::string id;
  std::vector<Capability> capabilities;
  Parameters parameters;                       // empty: not asked about
  std::map<std::string, std::string> context;  // empty: not asked about
};

struct ValidateResult {
  bool confirmed = false;
  std::string message;  // why not
};

// What a list is to tell of volumes.
enum class Show {
  kFacts,   // what they are
  kHealth,  // and how they are
  kAiling,  // the same, of those only that something ails
};

struct ListResult {
  std::vector<Volume> volumes;
  std::string next_token;  // empty: that was all
};

struct CapacityResult {
  Bytes available;     // the largest volume that CreateVolume makes right now; docs/capacity.md says why one
                       // volume
  Bytes maximum_size;  // the same number, for callers that read it
  Bytes minimum_size;  // smallest size that a request may be limited to
  std::string reason;  // why available is 0, for the log; empty if it is not
};

struct ExpandResult {
  Bytes size;
  bool node_expansion_required = false;
};

struct StageRequest {
  std::string id;
  AbsolutePath staging_path;
  Capability capability;
};

// Who makes and removes the path at which a volume is published. The caller's: it is there before, a
// directory even for a raw volume, and it is there afterwards.
enum class TargetOwner { kPlugin, kCaller };

struct PublishRequest {
  std::string id;
  std::optional<AbsolutePath> staging_path;  // nullopt: the caller does not stage; publishing does it all
  AbsolutePath target_path;
  Capability capability;
  bool read_only = false;
  TargetOwner target_owner = TargetOwner::kPlugin;
};

// An inline volume of a pod: made when it is published, erased when it is unpublished.
struct EphemeralRequest {
  PublishRequest publish;  // `id` is the CO's handle; nothing is staged
  Bytes size;              // 0: not said
  Parameters parameters;   // as of CreateRequest
};

struct VolumeStats {
  Bytes total;
  // Unknown for a raw block volume.
  std::optional<Bytes> used;
  std::optional<Bytes> available;
  std::optional<uint64_t> inodes_total, inodes_used, inodes_free;
  std::optional<Health> health = {};  // where it was asked for
};

// What a round of trimming came to.
struct TrimResult {
  size_t volumes = 0;  // whose file systems were asked
  Bytes trimmed;       // as the file systems say
  std::vector<std::string> failures;
};

struct NodeExpandRequest {
  std::string id;
  std::string volume_path;  // not parsed: an unknown volume is reported before an odd path
  std::string staging_path;
  CapacityRange range;
};

// Taking over a logical volume that somebody else made. It keeps its name, its extents and what is on it.
struct AdoptRequest {
  std::string group, lv_name;
  std::string name;      // what the CO is to call it; empty: "<group>/<lv name>"
  bool csilvm = false;   // one of csilvm's: the name is the one that csilvm's CO gave it, `name` is empty
  std::string fs_type;   // the file system a blank one is to get; of another, what it must hold. Empty: any
  std::string erase;     // as the parameter; empty: its default
  bool dry_run = false;  // looks at everything, changes nothing
};

struct AdoptResult {
  Volume volume;
  std::string access;   // as VolumeTags
  std::string holds;    // "ext4", "nothing", "raw data"; empty if it was a volume before
  std::string profile;  // canonical
  bool changed = false;
};

// Giving one back: Quarry forgets it, the logical volume stays, inactive, under its name.
struct ReleaseResult {
  std::string group, lv_name;
  bool changed = false;  // false: it was given back before, or dry_run
};

// Why disks and legs are looked at: something happened to a device of the kernel's; disks may have come or
// gone; somebody asked, and will not wait for what the policy waits for.
enum class RepairCause { kEvent, kDisks, kAsked };

// What a round of mending came to.
struct RepairReport {
  std::vector<std::string> done;       // steps, in words
  std::vector<std::string> obstacles;  // what ought to be done and cannot be, with the remedy
  // When something is due that nothing tells of. nullopt: there is nothing of the kind.
  std::optional<std::chrono::milliseconds> next;

  void NoLaterThan(std::chrono::milliseconds when) {
    when = std::max(when, std::chrono::milliseconds(1));
    next = std::min(next.value_or(when), when);
  }
};

// A disk that is to leave its group.
struct EvacuateRequest {
  std::string disk;      // UUID of its physical volume, or any path of it
  bool rebuild = false;  // raid legs are made anew from the others: nothing is read that is there elsewhere
  bool cancel = false;   // it stays after all; what has left has left
  bool dry_run = false;  // only whether it is possible
};
struct EvacuateResult {
  std::string pool, group, pv_uuid, device;
  Bytes to_move;                     // what lies there now
  std::vector<std::string> volumes;  // whose, by id
  bool changed = false;              // false: it was so already, or it was a dry run
};

struct ForeignLv {
  std::string lv_name;
  std::string id;  // as ListVolumes may show it; empty if it cannot have one
  Bytes size;
  bool csilvm = false;  // bears a name as csilvm gives them
};

// A disk of the node, and what the pools have to do with it.
struct DeviceReport {
  udev::Disk disk;
  std::string pv_uuid;  // empty: no physical volume
  std::string holds;    // "ext4", "LVM physical volume of vg1", "nothing"; empty: not known, it is in use
  std::string pool;     // that it is in, or whose rule it meets; empty: none
  std::string rule;     // that it meets; empty: none
  bool member = false;  // it is in the pool
  bool wanted = false;  // it is blank and unused, and to be taken
  std::string words;    // why it is as it is
  std::optional<udev::DiskHealth> health = {};  // of a pool's disk, as DiskStatus
};

// Legs that are to be compared.
struct ScrubRequest {
  std::vector<std::string> ids;  // none: of every volume that has more than one
  bool repair = false;           // and what differs written anew
};
struct ScrubAnswer {
  std::string id, name;  // of a pool that cannot be read: its name, and "pool"
  std::string refusal;   // why they are not compared; empty: they will be
};

// Whether the node can serve, and what it is doing about it if not.
struct Readiness {
  bool ready = false;
  std::string message;  // what it is still doing, when not ready; what is amiss, when it is
};

// A pool as monitoring wants it. Bytes are those of physical extents: every leg of a volume counts.
struct PoolFigures {
  std::string pool;
  std::string problem;  // why it does not serve, or could not be read; the rest is 0 then
  Bytes size;
  Bytes free;           // in no logical volume
  Bytes erase_pending;  // of deleted volumes that are still being erased
  size_t volumes = 0;   // ready ones
  size_t missing_disks = 0;
  size_t failing_disks = 0;  // by their own word
};

// The node at a glance.
struct DiskStatus {
  std::string pv_uuid;
  std::string device;  // as LVM is shown it; empty: it is not there
  // "ok", "missing", "returned": there, but not yet taken back; "leaving": being emptied;
  // "failing", "worn": by its own word
  std::string state;
  Bytes size, free;                             // of its extents
  std::string detail;                           // why it is failing or worn
  std::optional<udev::DiskHealth> health = {};  // as it last said; nullopt: it was not asked, or says nothing
};
struct VolumeStatus {
  std::string id, name, type;
  Bytes size;
  std::string condition;  // one word, as ConditionWord() says it; "unknown": detail says why
  std::string detail;     // what ails it, or what goes on; may be empty
  std::optional<uint32_t> percent;
  std::optional<ScrubOutcome> scrubbed = {};  // nullopt: never
  bool scrub_pending = false;                 // wanted, or going on
};
struct PoolStatus {
  PoolFigures figures;
  std::string group;
  std::vector<DiskStatus> disks;      // none if it could not be read: figures.problem says why
  std::vector<VolumeStatus> volumes;  // by name
  // The largest volume of each type, with its default geometry, that could be made now.
  std::map<lvm::VolumeType, Bytes> largest;
};

}  // namespace quarry::engine
