// Start, stop, and the status of the node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "engine/model/store_status.h"
#include "engine/model/volume.h"
#include "lvm/geometry.h"
#include "udev/disk_health.h"

namespace quarry::engine {

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
  Bytes zeroed;   // of `free`: known to read as zeroes, as of quarryd's last change or look at the group
  Bytes zeroing;  // not in `free`: held while they are zeroed in the background
  Bytes metadata_size, metadata_free;  // of the fullest metadata area (plan/metadata_budget.h)
  size_t volumes = 0;                  // ready volumes only
  size_t snapshots = 0;                // whole ones only
  size_t missing_disks = 0;
  size_t failing_disks = 0;
};

// The condition of a pool's disk. A missing disk is kMissing or kReturned, whatever its health. A present
// disk whose evacuation has begun is kToBeVacated, unless it is failing: until it is empty, that is what
// matters.
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
  bool leaving = false;                         // its evacuation has begun
};
struct VolumeStatus {  // of a volume or a snapshot
  std::string id, name, type;
  Bytes size;
  std::string condition;  // the word of ConditionWord(); "unknown": detail has the reason
  std::string detail;     // its ailments, or its current activity; may be empty
  std::optional<uint32_t> percent;
  std::optional<ScrubOutcome> scrubbed = {};  // nullopt: never
  bool scrub_pending = false;                 // requested, or running
  std::string snapshot_of = {};               // id of its volume if it is a snapshot; else empty
  Bytes asked = {};                           // the size that was asked for, at most `size`
  std::string fs_type = {};                   // its file system, or the one that it will get; empty: raw
  std::string mount_point = {};               // where quarryd mounts it at each start; empty: nowhere
  std::string mount_options = {};             // for mount_point, separated by commas
  bool is_bucket = false;                     // of src/bucket
  uint64_t created = 0;                       // seconds since 1970; 0: unknown to LVM
  std::vector<std::string> used_at = {};      // every path where it is mounted or published now
};
struct PoolStatus {
  PoolFigures figures;
  std::string group;
  std::vector<DiskStatus> disks;      // empty if the pool could not be read: figures.problem has the reason
  std::vector<VolumeStatus> volumes;  // by name
  // The largest volume of each type, with its default geometry, that could be made now.
  std::map<lvm::VolumeType, Bytes> largest;
  std::vector<StoreStatus> stores = {};  // by name
};

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Lifecycle {
 public:
  // `parts` must outlive this object.
  explicit Lifecycle(Parts& parts) : parts_(parts) {}

  // Finishes or undoes what an earlier process left unfinished in a pool, opens published raw devices again,
  // then starts the pool's eraser and serves the pool. While the first start runs, calls for the pool wait.
  // After a failed start they get kUnavailable and the reason, until a repeated start succeeds. Other pools,
  // unpublish and unstage do not depend on it. kInvalidArgument: no such pool. OK if the pool is served
  // already.
  Status StartPool(const std::string& name, const Call& call);
  // Starts one pool after the other. A pool that fails does not stop the others. Returns the first error.
  Status Start(const Call& call);
  // Refuses new calls (kUnavailable) from now on.
  void Refuse();
  // Refuses new calls, waits until the deadline for calls in flight, and stops the erasers and
  // the steps that callers left behind (mkfs, fsck). kTimeout: some calls were still running.
  Status Stop(const Call& call);

  // Ready while any pool serves, with the reasons of the pools that do not. If no pool serves: not ready
  // while one of them starts, otherwise an error, mostly kPrecondition. The error names the missing tool,
  // kernel target or volume group, or the commands that are stuck in the kernel once there are too many of
  // them.
  Result<Readiness> Probe(const Call& call);

  // Takes and releases the locks that every call needs and that no thread holds while it waits for a disk or
  // for a process. Returns at once, whatever the disks do, unless threads of this process wait for each
  // other.
  void TouchLocks();

  // Figures of every pool, for monitoring. A pool that does not serve is included, with the reason.
  Result<std::vector<PoolFigures>> Pools(const Call& call);

  // Every pool with the state of its disks and volumes (calls/listing.cc).
  Result<std::vector<PoolStatus>> NodeStatus(const Call& call);

  // One thin store, by its name or id, with the volumes in it. `pool`: in which it is; empty: in any. The
  // mapped bytes of volumes are read from the store's metadata, under the turn of its group. With `exclusive`
  // so are the bytes that only one volume has: that reads all mappings of the store, and may take some
  // seconds, while no volume of the pool can be made or changed. After at most 10 s it gives up. What could
  // not be read is missing in the answer, which says why. kNotFound: no pool has such a store.
  // kInvalidArgument: several pools have one of this name, or no such pool. kUnavailable: a pool could not be
  // read. (calls/store_report.cc)
  Result<StoreDetail> ShowStore(const std::string& pool, const std::string& store, bool exclusive,
                                const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
