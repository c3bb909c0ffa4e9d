#include "engine/plan/thin_capacity.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/start_store.h"

namespace quarry::engine {

CapacityResult ThinCapacityIn(const Catalog& catalog, const PoolConfig& pool, const Profile& profile,
                              Bytes least_size, dm::DmApi& dm) {
  const Bytes extent = catalog.group->extent_size;
  const Bytes least = ToBytes(lvm::RoundUp(profile.geometry, std::max(least_size, Bytes{1}), extent), extent);
  const auto store = FindStore(catalog, pool, profile);
  if (!store.has_value()) {
    return {{}, {}, least, store.error().message()};
  }
  if (const auto healthy = HealthyPool(*catalog.group, *(*store)->lv, dm); !healthy.has_value()) {
    return {{}, {}, least, healthy.error().message()};
  }
  const StoreSpace space = SpaceOf(catalog, **store);
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
