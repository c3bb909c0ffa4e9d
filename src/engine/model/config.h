// The node's configuration, fixed while the process lives: its pools, and the automatic work.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "engine/model/device_rules.h"
#include "lvm/geometry.h"

namespace quarry::engine {

// What pods may take of a pool as inline volumes.
struct EphemeralLimits {
  // Volume attributes that pods may set, in addition to those that the caller adds. mkfsoptions is never
  // among them. sync is among them only if the configuration permits it: for sync=skip, extents are zeroed
  // before any limit is checked.
  static std::set<std::string> UsualAttributes() {
    return {"erase", "mirrors", "pool", "regionsize", "size", "stripes", "stripesize", "type"};
  }

  std::optional<Bytes> most;  // size of one volume; 0: no inline volumes. nullopt: docs/ephemeral.md
  Bytes total;                // of all inline volumes together, all legs counted; 0: no limit
  uint64_t most_volumes = 0;  // 0: no limit
  std::set<std::string> attributes = UsualAttributes();
};

// A thin store: volumes with type=thin share its space (docs/thin-stores.md).
struct StoreConfig {
  std::string name;  // as the name of a pool
  Bytes size;        // of its data: what its volumes can have together
  lvm::Geometry geometry;
  Bytes chunk;  // the unit in which its volumes get space (model/thin_space.h has the limits)
  // Up to which its data grow by themselves, as far as the pool has free space. 0: they do not.
  Bytes most = {};
  // Percent of its data that its volumes may be promised together. 100: no write ever finds the store full.
  uint32_t overcommit = 100;
  // Percent of its data in use from which something is done (model/store_ladder.h). For overcommitted stores
  // only. warn <= grow <= refuse < 100.
  uint32_t warn = 70;
  uint32_t grow = 80;
  uint32_t refuse = 90;
};

struct PoolConfig {
  std::string name;   // [A-Za-z0-9] with inner '.', '-' and '_', at most 32
  std::string group;  // volume group
  Bytes reserve;      // kept free, left out of every reported capacity
  // Disks to make the group of if no group has that name. Only blank disks that are not in use are taken.
  // Every disk that an explicit path names must be present. Disks that other rules match are also added to an
  // existing group.
  std::vector<DeviceRule> devices;
  // Percent of the pool that volumes of a type may take together, all legs counted; the sum is at most 100.
  // Types without an entry share the rest. Empty: every type may use the whole pool, and several profiles may
  // be promised the same space.
  std::map<lvm::VolumeType, uint32_t> shares;
  // ListVolumes also shows the group's unmanaged logical volumes. Callers can read and adopt them, and
  // nothing else.
  bool list_foreign = false;
  // Disks that never join this pool, whatever rule they match.
  std::vector<DeviceRule> exclude;
  EphemeralLimits ephemeral = {};
  std::vector<StoreConfig> stores = {};  // by name, no name twice
};

// What quarryd does to a file system before mounting it: nothing, because mounting replays the journal; or
// the repairs that are safe without an administrator.
enum class Fsck { kOff, kPreen };

// The call that grows a volume's logical volume: ControllerExpandVolume; or NodeExpandVolume, for
// orchestrators that send the former to any node (Kubernetes' external-resizer).
enum class ExpandBy { kController, kNode };

struct EngineConfig {
  std::vector<PoolConfig> pools;  // at least one; the first is the default
  // This node's id. The ids of new volumes contain a hash of it. Empty: they do not.
  std::string node;
  Bytes extent_size{4 * 1024 * 1024};  // of groups that quarryd makes
  Bytes default_size = kGiB;           // when a request names no size
  // Whether a single-node volume may be published at several targets of this node, so that several pods of
  // one node can share it. csi-spec section 7 wants this refused; Kubernetes needs it.
  bool several_targets = true;
  // A folder that only quarryd writes to and that does not survive a boot. It has a folder for each group, in
  // which an orderly stop leaves what the next start may use (pool/zeroed_file.h). Empty: nothing is left.
  std::string memory_dir;
  // Upper limit, in bytes per second and disk, for erasing deleted volumes. 0: no limit.
  Bytes erase_rate;
  // Upper limit, in bytes per second, for each copy of a volume or snapshot. 0: no limit. nullopt: as
  // `erase_rate`.
  std::optional<Bytes> copy_rate;
  // How long after a start an interrupted copy waits for the repeated call that goes on with it, before it is
  // erased.
  std::chrono::minutes copy_keep{15};
  // How fast, in bytes per second, free extents of unknown past are zeroed while a pool has no other work. 0:
  // they are not.
  Bytes zero_free_rate;
  Fsck fsck = Fsck::kOff;
  ExpandBy expand = ExpandBy::kController;
  // Largest size of an inline volume if no pool sets a size of its own. 0: no inline volumes, because anyone
  // who may create a pod may ask for one.
  Bytes ephemeral_max_size;
  // Whether quarryd by itself rebuilds lost legs on other disks and removes missing disks from groups; and
  // how long a disk must have been missing before that. A returned disk is taken back in any case.
  bool repair = true;
  std::chrono::milliseconds repair_delay = std::chrono::minutes(10);
  // How long after its creation or its last scrub a RAID volume is scrubbed by itself, and in which hours of
  // the day a scrub may begin. The hours are local time, from `first` until before `last`, which may be on
  // the next day. An interval of 0: never.
  std::chrono::seconds scrub_interval{0};
  struct Hours {
    uint32_t first = 0;
    uint32_t last = 24;
  };
  Hours scrub_hours;
  // Upper limit, in bytes per second and leg, for rebuilding and scrubbing a RAID volume; whole KiB. 0: only
  // the kernel's own limits. nullopt: the limits in LVM's metadata of each volume.
  std::optional<Bytes> rebuild_rate;
  // Probe reports that the node is not healthy once this many commands are stuck in the kernel.
  size_t stuck_limit = 4;
};

}  // namespace quarry::engine
