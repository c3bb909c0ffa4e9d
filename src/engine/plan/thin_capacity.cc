#include "engine/plan/thin_capacity.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/sizing.h"
#include "engine/model/store_ladder.h"
#include "engine/model/thin_space.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/pool_queue.h"
#include "engine/plan/start_store.h"
#include "engine/plan/store_growth.h"

namespace quarry::engine {

namespace {

// The store as large as it can become for a new volume. LVM's metadata must have room for the growth, too.
StoreTerms TermsForNew(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                       const Profile& profile) {
  const StoreTerms now = TermsOf(store, pool);
  const StoreTerms most = LargestTerms(catalog, pool, store, PoolSpaceAfterZeroing(catalog, pool));
  if (most.data == now.data) {
    return now;
  }
  const auto growth = PlanStoreGrowth(catalog, pool, store, most.data);
  // While free space is being zeroed, there may be no plan; a growth takes less than two volumes do.
  const Bytes text =
      growth.has_value() ? MetadataFor(*growth) : Bytes{2 * MetadataForVolume(profile.geometry).value};
  const Bytes both = text + MetadataForVolume(profile.geometry);
  return CheckMetadataRoom(catalog, both).has_value() ? most : now;
}

}  // namespace

Status CheckFill(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                 const dm::ThinPoolStatus& status) {
  const StoreConfig rules = RulesOf(pool, store);
  if (FillOf(rules, Overcommits(catalog, pool, store), status) != StoreFill::kNearlyFull) {
    return Ok();
  }
  return Error(Code::kNoSpace,
               fmt::format("thin store '{}' is overcommitted, and {} % of its data are in use: from {} % on "
                           "nothing is made in it. Delete or trim volumes, or let it grow (max=…)",
                           store.name(), status.data_used * 100 / std::max<uint64_t>(status.data_total, 1),
                           rules.refuse));
}

CapacityResult ThinCapacityIn(const Catalog& catalog, const PoolConfig& pool, const Profile& profile,
                              Bytes least_size, dm::DmApi& dm) {
  const Bytes extent = catalog.group->extent_size;
  const Bytes least = ToBytes(lvm::RoundUp(profile.geometry, std::max(least_size, Bytes{1}), extent), extent);
  const auto store = FindStore(catalog, pool, profile);
  if (!store.has_value()) {
    return {{}, {}, least, store.error().message()};
  }
  const auto healthy = HealthyPool(*catalog.group, *(*store)->lv, dm);
  if (!healthy.has_value()) {
    return {{}, {}, least, healthy.error().message()};
  }
  if (const Status finished = CheckFinished(*catalog.group, *(*store)->lv, healthy->transaction_id);
      !finished.has_value()) {
    return {{}, {}, least, finished.error().message()};
  }
  if (const Status fill = CheckFill(catalog, pool, **store, *healthy); !fill.has_value()) {
    return {{}, {}, least, fill.error().message()};
  }
  const StoreSpace space = SpaceOf(catalog, **store, TermsForNew(catalog, pool, **store, profile));
  if (space.largest < least) {
    return {{},
            {},
            least,
            space.why.empty()
                ? fmt::format("thin store '{}' has {} left", (*store)->name(), HumanBytes(space.largest))
                : space.why};
  }
  if (const auto limit = CheckVolumeLimit(catalog); !limit.has_value()) {
    return {{}, {}, least, limit.error().message()};
  }
  if (const auto room = CheckMetadataRoom(catalog, MetadataForVolume(profile.geometry)); !room.has_value()) {
    return {{}, {}, least, room.error().message()};
  }
  return {space.largest, space.largest, least, ""};
}

}  // namespace quarry::engine
