// The requests and answers of the engine's callers: plain structs, without any CSI version.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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

// The access modes of CSI, without UNKNOWN (csi-spec section 3.3).
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
  std::vector<std::string> mount_flags;      // mount only; may contain secrets, never logged
  std::optional<uint32_t> mount_group = {};  // mount only: gid for all files
};

// 0: not set. The edge has checked that required <= limit if both are set, and that neither is negative.
struct CapacityRange {
  Bytes required;
  Bytes limit;
};

using Parameters = std::map<std::string, std::string>;

// A problem of a volume, in the terms of CSI's health RPCs (csi-spec, package csi.v1 since 1.13).
enum class Problem {
  kDegraded,      // the volume serves, with less redundancy than its profile promises
  kInaccessible,  // some or all of the volume cannot be read or written now
};
struct Ailment {
  Problem problem;
  std::string reason;   // one CamelCase word, unique within a volume: "DiskMissing"
  std::string message;  // for people, with the remedy
};
struct Health {
  std::vector<Ailment> ailments;         // empty: healthy
  std::string note;                      // activity that is no problem: "syncing, 40 %"; may be empty
  std::optional<uint32_t> percent = {};  // progress of a rebuild, sync or scrub
};

// A complete volume, as its tags describe it.
struct Volume {
  std::string id;
  std::string name;  // the CO's
  Bytes size;
  std::string pool;
  std::map<std::string, std::string> context;  // immutable facts only: always byte-identical
  std::optional<Health> health = {};           // if the caller asked for it
};

struct CreateRequest {
  std::string name;
  CapacityRange range;
  std::vector<Capability> capabilities;  // at least one
  Parameters parameters;
  // The caller tries other nodes after kNoSpace, and then forgets this node. So anything that this node lacks
  // becomes kNoSpace, but only if no volume of that name exists here or may still be created here.
  bool elsewhere = false;
};

struct CreateResult {
  Volume volume;
  bool created = false;  // false: it already existed
};

struct DeleteResult {
  bool deleted = false;  // false: it did not exist
};

struct ValidateRequest {
  std::string id;
  std::vector<Capability> capabilities;
  Parameters parameters;                       // empty: not validated
  std::map<std::string, std::string> context;  // empty: not validated
};

struct ValidateResult {
  bool confirmed = false;
  std::string message;  // why it is not confirmed
};

// What a list contains.
enum class Show {
  kFacts,   // the facts of each volume
  kHealth,  // the facts and the health
  kAiling,  // the facts and the health, of volumes with ailments only
};

struct ListResult {
  std::vector<Volume> volumes;
  std::string next_token;  // empty: the list is complete
};

struct CapacityResult {
  Bytes available;     // the largest single volume that can be made now (docs/capacity.md has the reason)
  Bytes maximum_size;  // the same number, for callers that read this field
  Bytes minimum_size;  // smallest size that a request may be limited to
  std::string reason;  // why available is 0, for the log; else empty
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

// Who makes and removes the path at which a volume is published. kCaller: the path exists before and after;
// it is a directory even for a raw volume.
enum class TargetOwner { kPlugin, kCaller };

struct PublishRequest {
  std::string id;
  std::optional<AbsolutePath> staging_path;  // nullopt: the caller does not stage; publishing does everything
  AbsolutePath target_path;
  Capability capability;
  bool read_only = false;
  TargetOwner target_owner = TargetOwner::kPlugin;
};

// An inline volume of a pod: publishing makes it, unpublishing erases it.
struct EphemeralRequest {
  PublishRequest publish;  // `id` is the CO's handle; there is no staging
  Bytes size;              // 0: not given
  Parameters parameters;   // as in CreateRequest
};

struct VolumeStats {
  Bytes total;
  // Unknown for a raw block volume.
  std::optional<Bytes> used;
  std::optional<Bytes> available;
  std::optional<uint64_t> inodes_total, inodes_used, inodes_free;
  std::optional<Health> health = {};  // if the caller asked for it
};

// The result of a round of trimming.
struct TrimResult {
  size_t volumes = 0;  // whose file systems were trimmed
  Bytes trimmed;       // as the file systems report
  std::vector<std::string> failures;
};

struct NodeExpandRequest {
  std::string id;
  std::string volume_path;  // not parsed: an unknown volume is reported before an invalid path
  std::string staging_path;
  CapacityRange range;
};

// Adoption of an unmanaged logical volume. It keeps its name, its extents and its content.
struct AdoptRequest {
  std::string group, lv_name;
  std::string name;      // the CO's name for it; empty: "<group>/<lv name>"
  bool csilvm = false;   // a csilvm volume: it gets the name that csilvm's CO gave it; `name` is empty
  std::string fs_type;   // the file system that it must hold, or that a blank one gets. Empty: any
  std::string erase;     // as the parameter "erase"; empty: its default
  bool dry_run = false;  // checks everything, changes nothing
};

struct AdoptResult {
  Volume volume;
  std::string access;   // as in VolumeTags
  std::string holds;    // "ext4", "nothing", "raw data"; empty if it was already managed
  std::string profile;  // canonical
  bool changed = false;
};

// The release of a volume: it becomes unmanaged. The logical volume stays, inactive, with its name.
struct ReleaseResult {
  std::string group, lv_name;
  bool changed = false;  // false: it was already released, or dry_run
};

// Why a repair round runs. kEvent: a kernel device changed. kDisks: disks may have come or gone. kAsked: an
// administrator asked, and does not wait for the delays of the policy.
enum class RepairCause { kEvent, kDisks, kAsked };

// The result of a repair round.
struct RepairReport {
  std::vector<std::string> done;       // steps, as text
  std::vector<std::string> obstacles;  // repairs that are needed but not possible, with the remedy
  // When work is due that no event announces. nullopt: there is no such work.
  std::optional<std::chrono::milliseconds> next;

  void NoLaterThan(std::chrono::milliseconds when) {
    when = std::max(when, std::chrono::milliseconds(1));
    next = std::min(next.value_or(when), when);
  }
};

// The evacuation of a disk.
struct EvacuateRequest {
  std::string disk;      // UUID of its physical volume, or any path of it
  bool rebuild = false;  // RAID legs are rebuilt from the other legs and not read from this disk
  bool cancel = false;   // the disk stays; extents that have already moved do not return
  bool dry_run = false;  // only checks whether it is possible
};
struct EvacuateResult {
  std::string pool, group, pv_uuid, device;
  Bytes to_move;                     // on the disk now
  std::vector<std::string> volumes;  // ids of the volumes on the disk
  bool changed = false;              // false: nothing to change, or dry_run
};

struct ForeignLv {
  std::string lv_name;
  std::string id;  // as ListVolumes may show it; empty: its uuid makes none
  Bytes size;
  bool csilvm = false;  // has a name of the form that csilvm gives
};

// A disk of the node, and its relation to the pools.
struct DeviceReport {
  udev::Disk disk;
  std::string pv_uuid;  // empty: no physical volume
  std::string holds;    // "ext4", "LVM physical volume of vg1", "nothing"; empty: unknown, the disk is in use
  std::string pool;     // the pool that has the disk or whose rule it meets; empty: none
  std::string rule;     // the rule that it meets; empty: none
  bool member = false;  // the disk is in the pool
  bool wanted = false;  // the disk is blank and free, and will join
  std::string words;    // the reason for the above
  std::optional<udev::DiskHealth> health = {};  // of a pool's disk, as in DiskStatus
};

// A request to scrub volumes.
struct ScrubRequest {
  std::vector<std::string> ids;  // empty: every volume with more than one leg
  bool repair = false;           // rewrite what differs
};
struct ScrubAnswer {
  std::string id, name;  // for a pool that cannot be read: its name, and "pool"
  std::string refusal;   // why it will not be scrubbed; empty: it will be
};

// Whether the node can serve.
struct Readiness {
  bool ready = false;
  std::string message;  // not ready: what it is still doing; ready: the problems of single pools
};

// A pool's figures for monitoring. Bytes are those of physical extents: every leg of a volume counts.
struct PoolFigures {
  std::string pool;
  std::string problem;  // why it does not serve, or could not be read; the rest is then 0
  Bytes size;
  Bytes free;           // extents in no logical volume
  Bytes erase_pending;  // extents of deleted volumes that are still being erased
  size_t volumes = 0;   // ready volumes only
  size_t missing_disks = 0;
  size_t failing_disks = 0;
};

// The condition of a pool's disk. A missing disk is kMissing or kReturned, whatever its health. A present
// disk whose evacuation has begun is kToBeVacated, whatever its health.
enum class DiskCondition {
  kOk,
  kMissing,
  kReturned,  // present, but not yet taken back
  kToBeVacated,
  kFailing,
  kWorn,
};
// The word that callers see: "ok", "missing", "returned", "leaving", "failing" or "worn".
std::string_view DiskConditionName(DiskCondition condition);

// The parts of the node's status.
struct DiskStatus {
  std::string pv_uuid;
  std::string device;  // its path as LVM sees it; empty: missing
  DiskCondition condition = DiskCondition::kOk;
  Bytes size, free;                             // sums of its extents
  std::string detail;                           // why it is failing or worn
  std::optional<udev::DiskHealth> health = {};  // as last polled; nullopt: never, or the disk has none
};
struct VolumeStatus {
  std::string id, name, type;
  Bytes size;
  std::string condition;  // the word of ConditionWord(); "unknown": detail has the reason
  std::string detail;     // its ailments, or its current activity; may be empty
  std::optional<uint32_t> percent;
  std::optional<ScrubOutcome> scrubbed = {};  // nullopt: never
  bool scrub_pending = false;                 // requested, or running
};
struct PoolStatus {
  PoolFigures figures;
  std::string group;
  std::vector<DiskStatus> disks;      // empty if the pool could not be read: figures.problem has the reason
  std::vector<VolumeStatus> volumes;  // by name
  // The largest volume of each type, with its default geometry, that could be made now.
  std::map<lvm::VolumeType, Bytes> largest;
};

}  // namespace quarry::engine
