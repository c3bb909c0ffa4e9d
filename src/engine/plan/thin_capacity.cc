#include "engine/plan/thin_capacity.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/sizing.h"
#include "engine/model/store_ladder.h"
#include "engine/model/thin_space.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/start_store.h"
#include "engine/plan/store_growth.h"

namespace quarry::engine {

Status CheckFill(const Store& store, const PoolConfig& pool, const dm::ThinPoolStatus& status) {
  const StoreConfig* const config = ConfigOf(pool, store);
  if (config == nullptr || FillOf(*config, status) != StoreFill::kNearlyFull) {
    return Ok();
  }
  return Error(Code::kNoSpace,
               fmt::format("thin store '{}' is overcommitted, and {} % of its data are in use: from {} % on "
                           "nothing is made in it. Delete or trim volumes, or let it grow (max=…)",
                           store.name(), status.data_used * 100 / std::max<uint64_t>(status.data_total, 1),
                           config->refuse));
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
  if (const Status fill = CheckFill(**store, pool, *healthy); !fill.has_value()) {
    return {{}, {}, least, fill.error().message()};
  }
  const StoreSpace space =
      SpaceOf(catalog, **store, LargestTerms(catalog, pool, **store, PoolSpaceAfterZeroing(catalog, pool)));
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
