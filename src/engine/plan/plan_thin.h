// Plans for thin stores and the volumes in them. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/plan/actions.h"
#include "engine/plan/plan_volume.h"
#include "engine/plan/store_growth.h"

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
// new and blank. The store grows before if it must (PlanRoom, whose errors this has).
Result<CreatePlan> PlanCreateThin(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                                  const CreateWish& wish);

// A new volume or snapshot that gets the bytes of another in the same store.
struct CutWish {
  CreateWish wish;       // `cut` makes it a snapshot; `source` says of what it is a copy
  const Record* origin;  // in the catalog
};
// The group snapshot of which all are members. `name` empty: of none.
struct CutGroup {
  std::string id, name;
};
struct CutPlan {
  Plan actions;                       // ends with the cut
  std::vector<Volume> volumes;        // as callers will see them, in the order of the wishes
  std::vector<lvm::VolumeTags> tags;  // of each when it is ready; until then `mapped` is not final
};
// What the origins of snapshots have together, in whole extents.
struct MappedBytesOf {
  Bytes now;
  Bytes most;  // that they can have at the cut: an active one can be written to
};

// What the wishes need together. `mapped`: what the origins of snapshots have now.
StoreNeed NeedOf(const Catalog& catalog, const std::vector<CutWish>& wishes, Bytes mapped);

// Makes placeholders, with the tags of deleted volumes, and gives all of them the bytes of their origins at
// one instant (cut.h). The store grows before if it must (PlanRoom), for snapshots by some more, as
// the origins may be written to until the cut. kNoSpace if they do not fit.
Result<CutPlan> PlanCut(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                        const std::vector<CutWish>& wishes, const MappedBytesOf& mapped,
                        const CutGroup& group = {});

// Makes a volume or snapshot ready that a cut has filled. `planned`: tags of its plan; `now`: those that it
// gets.
lvm::ChangeTags PlanReady(const std::string& group, const std::string& lv_name, lvm::VolumeTags planned,
                          lvm::VolumeTags now);

// Grows a thin volume to `size` extents, because the caller asked for `asked`. The size tag is written last.
// The store must have room for it (PlanRoom).
Result<Plan> PlanExpandThin(const Catalog& catalog, const Record& record, Extents size, Bytes asked);

// The tags that a growth to `size` changes.
lvm::ChangeTags PlanSizeTags(const Record& record, Bytes size, Bytes asked);

}  // namespace quarry::engine
