// Looks at a pool's disks and volumes for the repair loop. Each call returns a value. It changes nothing,
// remembers nothing and logs nothing: what is to be remembered is in the value, and the loop writes it down.
// So a look can be tested without an engine.
//
// Volumes are observed one by one. What the loop remembers of one volume must not get lost because the next
// volume cannot be looked at.
//
// Safe from any thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "dm/dm_api.h"
#include "dm/raid_legs_api.h"
#include "engine/model/catalog.h"
#include "engine/repair/plan_repair.h"

namespace quarry::engine {

// When repair no longer waits for a missing disk.
struct GiveUpPolicy {
  bool at_once = false;  // an administrator asks for repairs
  bool after_delay = true;
  std::chrono::milliseconds delay{0};
};
// The missing disks of a group, by PV UUID.
struct MissingDisks {
  std::set<std::string> all;
  std::set<std::string> given_up;  // some of `all`
  // The time until the next one is given up. nullopt: none will be, or all are.
  std::optional<std::chrono::milliseconds> next;
};
// `since`: since when disks are missing; has every missing disk of the group. Pure.
MissingDisks ObserveMissing(const lvm::VolumeGroup& group, const std::map<std::string, SteadyTime>& since,
                            const GiveUpPolicy& policy, SteadyTime now);

// A disk that was missing and is back.
struct ReturnedDisk {
  std::vector<std::string> volumes;  // ids of the volumes with a leg there, in every state
  // The disk was really pulled. A disk that fails reads looks missing now and then although it was present
  // all the time. A volume that was in use on a pulled disk has a device that leads to no disk now; that is
  // the proof.
  bool pulled = false;
};
// A volume whose device cannot be looked at proves nothing.
ReturnedDisk ObserveReturned(const Catalog& catalog, const std::string& pv_uuid, dm::DmApi& dm);

// What quarryd remembers of a volume.
struct VolumeMemory {
  bool doubtful = false;      // Doubts has an entry for it
  bool on_lost_disk = false;  // as the repair loop last saw it (Node::lost_in_kernel)
  bool scrubbing = false;     // Scrubs::IsRunning
};
struct VolumeObservation {
  // Without refresh_due, hopeless and scrub_due, which depend on earlier attempts, and without `accepted`.
  VolumeView view;
  // To be remembered in Node::lost_in_kernel. nullopt: was not looked up.
  std::optional<bool> on_lost_disk;
  // Whether Doubts is to be updated: an inactive volume's entry to view.doubt, which may be empty. An active
  // volume has no entry: its view.doubt is why a leg is not taken back, which is not remembered.
  bool doubt_changed = false;
};
// Observes a ready volume. `raid`: the kernel's status of its legs; nullopt as in VolumeView. `disks`: also
// check whether the volume lies on a pulled disk. That takes several queries and changes only when disks come
// or go, so it is otherwise done for volumes in trouble only.
//
// Fails if device-mapper cannot be asked. A superblock that cannot be read is a doubt, and no error. Waits
// for disks only to read superblocks.
Result<VolumeObservation> ObserveVolume(const Record& record, const std::optional<dm::RaidStatus>& raid,
                                        const VolumeMemory& memory, bool disks, dm::DmApi& dm,
                                        dm::RaidLegsApi& legs);

}  // namespace quarry::engine
