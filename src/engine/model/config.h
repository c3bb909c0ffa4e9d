// How the node is configured, as it is while the process lives: its pools, and what is done unasked.
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
#include "lvm/layout.h"

namespace quarry::engine {

// What pods may have of a pool as inline volumes.
struct EphemeralLimits {
  // What they may say of them, but for what the caller adds. mkfsoptions are never among it; sync is, only if
  // the configuration says so: for sync=skip space is cleared before any limit is met.
  static std::set<std::string> UsualAttributes() {
    return {"erase", "mirrors", "pool", "regionsize", "size", "stripes", "stripesize", "type"};
  }

  std::optional<Bytes> most;  // of one; 0: none at all. Not said: docs/ephemeral.md
  Bytes total;                // of all together, all legs counted; 0: no limit
  uint64_t most_volumes = 0;  // 0: no limit
  std::set<std::string> attributes = UsualAttributes();
};

struct PoolConfig {
  std::string name;   // [A-Za-z0-9] with inner '.', '-' and '_', at most 32
  std::string group;  // volume group
  Bytes reserve;      // kept free, out of every promise
  // Disks to make the group of, should there be none of that name, of those that are blank and unused: what
  // an explicit path names must all be there. What another rule names is also added to a group that exists.
  std::vector<DeviceRule> devices;
  // Percent of the pool that volumes of a type may take together, all legs counted; the sum is at most 100.
  // Types that are not named share what is left. Empty: everybody may have everything, and what is promised
  // to one profile is promised to the others too.
  std::map<lvm::VolumeType, uint32_t> shares;
  // ListVolumes shows the group's other logical volumes too. They can be looked at, and adopted, nothing
  // else.
  bool list_foreign = false;
  // Disks that no rule of this pool gets.
  std::vector<DeviceRule> exclude;
  EphemeralLimits ephemeral = {};
};

// What is done about a file system before it is mounted: nothing, for journals replay by mounting; or what is
// safe to repair unasked.
enum class Fsck { kOff, kPreen };

// Which call grows a volume's logical volume: ControllerExpandVolume, or NodeExpandVolume, for orchestrators
// that send the former to any node (Kubernetes' external-resizer).
enum class ExpandBy { kController, kNode };

struct EngineConfig {
  std::vector<PoolConfig> pools;  // at least one; the first is the default
  // This node's id, by which the ids of new volumes name it. Empty: they do not.
  std::string node;
  Bytes extent_size{4 * 1024 * 1024};  // of groups that are made
  Bytes default_size = kGiB;           // when a request names no size
  // Publishing a single-node volume at several targets of this node: several pods of one node may share a
  // volume. csi-spec section 7 would have it refused; Kubernetes needs it.
  bool several_targets = true;
  // Bytes a second that a disk is cleared at, at most, after volumes were deleted. 0: as fast as it goes.
  Bytes erase_rate;
  Fsck fsck = Fsck::kOff;
  ExpandBy expand = ExpandBy::kController;
  // The largest size of an inline volume, where no pool says what it gives. 0: there are none, because
  // whoever may make a pod may ask for one.
  Bytes ephemeral_max_size;
  // Whether lost legs are rebuilt on other disks, and groups reduced, unasked; and how long a disk must have
  // been away for that. What comes back is taken back in any case.
  bool repair = true;
  std::chrono::milliseconds repair_delay = std::chrono::minutes(10);
  // How long after they were made, or last compared, the legs of raid volumes are compared unasked, and at
  // which hours of the day that may begin, in local time: from `first` until before `last`, which may be the
  // next day's. An interval of 0: never.
  std::chrono::seconds scrub_interval{0};
  struct Hours {
    uint32_t first = 0;
    uint32_t last = 24;
  };
  Hours scrub_hours;
  // Bytes a second that each leg of a raid volume is filled or compared with at most, whole KiB; 0: only the
  // kernel's own limits. nullopt: whatever LVM's metadata say of each volume.
  std::optional<Bytes> rebuild_rate;
  // With as many commands stuck in the kernel, the node is not healthy (Probe).
  size_t stuck_limit = 4;
};

}  // namespace quarry::engine
