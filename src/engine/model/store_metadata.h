// What the metadata of a thin store that is not started say, compared with LVM's text; and which volumes of a
// group are there because metadata were replaced. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "lvm/snapshot.h"
#include "thin/repair_api.h"

namespace quarry::engine {

enum class MetadataVerdict {
  kSound,     // LVM may start the pool with them
  kRenumber,  // they are sound, and belong to LVM's text beyond doubt, but have a later transaction id
  kRebuild,   // they are damaged, and what they say of devices and mappings can be read completely
};

// `check`: of RepairApi::Check. `stored`: of RepairApi::Look. `lvm_refused`: LVM has refused to start the
// pool because of its transaction id. Without that, an id that is one behind LVM's is sound: LVM has a
// message for the pool queued.
//
// The proof for kRenumber: the id of the metadata is higher than LVM's, so they are not older than the text;
// they have exactly the devices of the text, each made at the transaction that the text has for it; and data
// and metadata are on RAID, whose superblocks prove that they still lie where the text says.
// kPrecondition if the id is another one and this is not so: the message says which devices are different,
// and what a person can do. kCorrupt: the metadata are damaged and cannot be read completely, so nothing
// could prove that a repair loses nothing. Other errors: those of `check` and `stored` that say nothing of
// the metadata.
Result<MetadataVerdict> JudgeMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                      const Status& check, const Result<thin::StoredPool>& stored,
                                      bool lvm_refused);

// OK if `repaired` has every device of LVM's text, and says the same as the former metadata. `differences`:
// of RepairApi::Compare. kCorrupt: the message names the volumes that are not as they were.
Status ProveRepaired(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                     const thin::StoredPool& repaired, const std::map<uint32_t, std::string>& differences);

// Volumes, or single legs, that were made to become the metadata of a thin pool in this group, and never were
// that: a repair was cut off. They hold nothing that is not in the pool's own metadata.
std::vector<const lvm::LogicalVolume*> UnusedMetadata(const lvm::VolumeGroup& group);

// An exchange of a store's metadata that was begun, as the tag of the store says.
struct MetadataExchange {
  const Store* store = nullptr;
  std::string tag;    // of the store, to be removed
  bool done = false;  // whether the store has other metadata than before
  // The former metadata, if they are a volume of their own now.
  const lvm::LogicalVolume* kept = nullptr;
};
std::vector<MetadataExchange> BegunExchanges(const Catalog& catalog);
// The first name for kept metadata of this pool that no volume has.
std::string FreeKeptName(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool);

}  // namespace quarry::engine
