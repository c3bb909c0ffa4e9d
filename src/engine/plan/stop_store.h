// Stops thin stores, and makes the metadata of stopped ones again. The caller of each has the group's turn,
// and the locks of all volumes in the store.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/store_metadata.h"
#include "engine/plan/actions.h"
#include "engine/world.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// The volumes of the pool that the kernel has, an administrator's too; and how many have each open.
struct ActiveVolume {
  const lvm::LogicalVolume* lv = nullptr;
  uint32_t open_count = 0;
};
Result<std::vector<ActiveVolume>> ActiveVolumesIn(const lvm::VolumeGroup& group,
                                                  const lvm::LogicalVolume& pool, dm::DmApi& dm);
// Those that something has open.
Result<std::vector<const lvm::LogicalVolume*>> OpenVolumesIn(const lvm::VolumeGroup& group,
                                                             const lvm::LogicalVolume& pool, dm::DmApi& dm);

// The volumes in the pool that are to be active once it is started: those that are (`active`), and those that
// an earlier stop has deactivated (`before`, by name). A raw volume that is staged is published without being
// staged again.
std::vector<std::string> NamesToActivate(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                         const std::vector<ActiveVolume>& active,
                                         const std::set<std::string>& before);

// Deactivates every volume in the pool, and the pool, so that the kernel has neither it nor its parts. OK if
// that is so. Nothing was done if a volume is open, or if the store would not start again as `group` shows it
// (CheckStore; kPrecondition, kUnavailable): the message says what is in the way. If another process changes
// the group meanwhile, LVM stops nothing more (kUnavailable).
Status StopStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                 const Call& call);

// Why the kernel cannot go on with this store without having been stopped and started: "is read-only", …;
// empty: it can, or it does not have the store. Data or metadata that lost too many legs are one reason.
Result<std::string> WhyRestart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, dm::DmApi& dm);

// What a look at the metadata of a stopped store has found.
struct MetadataFound {
  Status check;                     // of RepairApi::Check
  Result<thin::StoredPool> stored;  // of RepairApi::Look
};
// Starts the metadata of a stopped store alone, read-only, and looks at them; and stops them again. Takes the
// superblocks of RAID legs into account, as StartStore. kPrecondition: the legs are in doubt (FindDoubt).
Result<MetadataFound> LookAtMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                     const World& world, const Call& call);

// Fills the volume `fresh`, which must be active, with what the metadata of the stopped store say, and proves
// that both say the same (ProveRepaired). `fresh` has ReplacesTag. It and the metadata are not active
// afterwards. `lvm_refused` as for JudgeMetadata.
Status RemakeMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                      const lvm::LogicalVolume& fresh, bool lvm_refused, const World& world,
                      const Call& call);

}  // namespace quarry::engine
