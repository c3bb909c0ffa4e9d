// The disks of the node: which there are, which join a pool, how healthy they are, and how a disk is
// evacuated.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/upkeep_requests.h"
#include "udev/disk_health.h"
#include "udev/udev_api.h"

namespace quarry::engine {

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

// Which disks may join a pool.
enum class JoinScope {
  kAll,      // each that a rule matches: after a disk has arrived
  kRefused,  // only those that LVM refused before. Without such disks, nothing is read
};

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Disks {
 public:
  // `parts` must outlive this object.
  explicit Disks(Parts& parts) : parts_(parts) {}

  // Every disk of the node, and why it is or is not in a pool (disks/inventory.cc). Works before the engine
  // has started, because the disks may be the reason why it cannot start. kUnavailable: disks cannot be
  // listed.
  Result<std::vector<DeviceReport>> Devices(const Call& call);
  // Adds the disks that match a pool's rules and are proven blank and free. Returns how many joined. A disk
  // that cannot join is logged. A start does this too, with all disks.
  Result<size_t> JoinDisks(JoinScope scope, const Call& call);

  // Polls the health of the pools' disks (model/failing_disks.h) and logs changes. Returns whether anything
  // changed. Waits for slow disks until `call` ends; their state does not change meanwhile.
  Result<bool> PollDisks(const Call& call);

  // Forgets what PollDisks learned, because polling was switched off. Not while PollDisks runs.
  void ForgetHealth();

  // Begins the evacuation of a disk, or calls it off. From then on the disk gets no more extents, and the
  // repair loop moves its contents elsewhere and takes the disk out of its group (repair/evacuation.cc). A
  // repeated call continues, also after a restart. kNotFound: no pool has the disk. kNoSpace: the other disks
  // lack space, and how much. kPrecondition: the disk is the last one, is missing, or holds unmanaged
  // volumes. kUnsupported: the kernel cannot do it.
  Result<EvacuateResult> Evacuate(const EvacuateRequest& request, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
