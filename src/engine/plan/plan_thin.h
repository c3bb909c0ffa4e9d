// Plans for thin stores and the volumes in them. Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/plan/actions.h"
#include "engine/plan/plan_volume.h"

namespace quarry::engine {

// Names of the two logical volumes of which a store is made; both new.
struct StoreNames {
  std::string data, metadata;
};

// Makes a store: data and metadata, placed extent by extent, each with the marker; then the pool of both;
// then the tags that make it a store. Metadata are on two disks (raid1) if the data are on a RAID type that
// survives the loss of one. After a crash the next start removes what is there. Errors of lvm::Place and
// MetadataSize.
Result<Plan> PlanMakeStore(const Catalog& catalog, const PoolConfig& pool, const StoreConfig& store,
                           const StoreNames& names, const std::string& node_hash, Bytes max_recovery_rate);

// Takes the extents of a placement out of the free space, so that the next placement gets others.
void TakeOut(const lvm::Placement& placement, lvm::FreeSpace& space);

// Makes a thin volume of wish.size extents. It has the marker until its device in the pool is proven to be
// new and blank. kNoSpace if it does not fit (model/thin_space.h).
Result<CreatePlan> PlanCreateThin(const Catalog& catalog, const Store& store, const CreateWish& wish);

// Grows a thin volume to `size` extents, because the caller asked for `asked`. The size tag is written last.
Result<Plan> PlanExpandThin(const Catalog& catalog, const Record& record, Extents size, Bytes asked);

// The tags that a growth to `size` changes.
lvm::ChangeTags PlanSizeTags(const Record& record, Bytes size, Bytes asked);

}  // namespace quarry::engine
