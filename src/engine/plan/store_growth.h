// How far a thin store can grow out of the free space of its pool, and the steps. The data grow, and with
// them the metadata, so that the one is never of no use for lack of the other. Pure.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/thin_space.h"
#include "engine/plan/actions.h"
#include "lvm/layout.h"

namespace quarry::engine {

// What is to have room in a store: as the arguments of SpaceOf.
struct StoreNeed {
  Bytes bytes;
  const Record* grows = nullptr;
  Addition what = Addition::kBlank;
  size_t count = 1;
};

// The store with the most data that it can have now: StoreConfig::most, less if `space`, the free space of
// the pool, or the share of its type is less. The store as it is if it cannot grow at all.
StoreTerms LargestTerms(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                        const lvm::FreeSpace& space);

// The store with as little more data as `need` takes. kNoSpace: it does not fit, however much the store
// grows.
Result<StoreTerms> TermsFor(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                            const lvm::FreeSpace& space, const StoreNeed& need);

// The steps with which the store gets at least `data`, and the metadata for all that it may promise then.
// Empty if it has them. The metadata grow first. A growth that is cut off leaves a larger store, which
// another growth completes. Errors of CheckShare, MetadataSize and lvm::PlaceGrowth.
Result<Plan> PlanStoreGrowth(const Catalog& catalog, const PoolConfig& pool, const Store& store, Bytes data);

struct StoreRoom {
  Plan growth;    // steps that come before everything else; empty: there is room already
  Bytes largest;  // afterwards: StoreSpace::largest
};
// Makes room for `need`. kNoSpace: the store has no room and cannot grow enough; the message says why.
// kPrecondition: LVM makes nothing in the group now.
Result<StoreRoom> PlanRoom(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                           const StoreNeed& need);

}  // namespace quarry::engine
