#include "engine/plan/store_growth.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/model/greatest.h"
#include "engine/model/sizing.h"
#include "engine/plan/plan_thin.h"

namespace quarry::engine {
namespace {

// The steps that give one part of a store `more` extents.
Result<Plan> PlanPart(lvm::FreeSpace& space, const Catalog& catalog, const Store& store,
                      const lvm::LogicalVolume& part, Extents more) {
  const lvm::VolumeGroup& group = *catalog.group;
  const auto geometry = GeometryOfPart(part);
  if (!geometry.has_value()) {
    return Error(Code::kPrecondition, fmt::format("{} is of an unknown layout", part.name));
  }
  auto growth = lvm::PlaceGrowth(space, *geometry, group, part, more);
  if (!growth.has_value()) {
    return ReportExcluded(std::move(growth.error()), catalog);
  }
  Plan plan;
  for (const lvm::PlacementStep& step : growth->steps) {
    if (&part == store.data) {
      plan.push_back(lvm::ExtendLv{group.name, store.lv->name, *geometry, step});
    } else {
      plan.push_back(lvm::ExtendPoolMetadata{.group = group.name,
                                             .name = store.lv->name,
                                             .geometry = *geometry,
                                             .step = step,
                                             .extent_size = group.extent_size});
    }
  }
  TakeOut(*growth, space);
  plan.push_back(VerifyLayoutAction{.group = group.name, .name = part.name, .placement = std::move(*growth)});
  return plan;
}

// The extents of metadata with which all of `terms` can be promised; those that there are, if they suffice.
Result<Extents> GrownMetadata(const StoreTerms& terms, const Store& store, Bytes extent) {
  QUARRY_ASSIGN(const Bytes fitting, terms.FittingMetadata(store.chunk()));
  return CeilToExtents(std::max(fitting, terms.metadata), extent);
}

// What a growth adds.
struct More {
  lvm::Geometry geometry;  // of the data
  Extents data, metadata;
};

Result<More> MoreFor(const Catalog& catalog, const PoolConfig& pool, const Store& store, Bytes data) {
  const Bytes extent = catalog.group->extent_size;
  const auto geometry = GeometryOfPart(*store.data);
  if (!geometry.has_value()) {
    return Error(Code::kPrecondition, "its data are of an unknown layout");
  }
  const Extents now = CeilToExtents(store.data->size, extent);
  const Extents size = std::max(lvm::RoundUp(*geometry, data, extent), now);
  StoreTerms terms = TermsOf(store, pool);
  terms.data = ToBytes(size, extent);
  QUARRY_ASSIGN(const Extents metadata, GrownMetadata(terms, store, extent));
  return More{*geometry, size - now, metadata - CeilToExtents(store.metadata->size, extent)};
}

// Whether both parts find their place.
bool Fits(const Catalog& catalog, const PoolConfig& pool, const Store& store, lvm::FreeSpace space,
          Bytes data) {
  const auto more = MoreFor(catalog, pool, store, data);
  if (!more.has_value() || !CheckShare(catalog, pool, more->geometry, more->data, false).has_value() ||
      (more->metadata > Extents{} &&
       !PlanPart(space, catalog, store, *store.metadata, more->metadata).has_value())) {
    return false;
  }
  return more->data == Extents{} ||
         lvm::PlaceGrowth(space, more->geometry, *catalog.group, *store.data, more->data).has_value();
}

// The store with data of this size.
StoreTerms At(const Catalog& catalog, const PoolConfig& pool, const Store& store, Bytes data) {
  StoreTerms terms = TermsOf(store, pool);
  if (data > terms.data) {
    terms.data = data;
    const Bytes extent = catalog.group->extent_size;
    const auto metadata = GrownMetadata(terms, store, extent);
    terms.metadata = metadata.has_value() ? ToBytes(*metadata, extent) : terms.metadata;
  }
  return terms;
}

// Sizes of data that the store can have, from its own on.
struct Steps {
  Bytes from, granule;
  uint64_t count = 0;  // of granules that can be added
  Bytes After(uint64_t number) const { return {from.value + number * granule.value}; }
};
Steps StepsOf(const Catalog& catalog, const PoolConfig& pool, const Store& store,
              const lvm::FreeSpace& space) {
  Steps steps{store.data->size, catalog.group->extent_size};
  const StoreConfig rules = RulesOf(pool, store);
  const auto geometry = GeometryOfPart(*store.data);
  if (!geometry.has_value() || rules.most <= steps.from) {
    return steps;
  }
  steps.granule = lvm::Granule(*geometry, catalog.group->extent_size);
  const uint64_t wanted = (rules.most - steps.from).value / steps.granule.value;
  const Bytes placeable =
      ToBytes(lvm::MaxGrowth(space, *geometry, *catalog.group, *store.data), catalog.group->extent_size);
  steps.count = Greatest(std::min(wanted, placeable.value / steps.granule.value), [&](uint64_t number) {
    return Fits(catalog, pool, store, space, steps.After(number));
  });
  return steps;
}

}  // namespace

StoreTerms LargestTerms(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                        const lvm::FreeSpace& space) {
  const Steps steps = StepsOf(catalog, pool, store, space);
  return At(catalog, pool, store, steps.After(steps.count));
}

Result<StoreTerms> TermsFor(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                            const lvm::FreeSpace& space, const StoreNeed& need) {
  const auto lacks = [&](const StoreTerms& terms) {
    return SpaceOf(catalog, store, terms, need.grows, need.what, need.count).largest < need.bytes;
  };
  const StoreTerms now = TermsOf(store, pool);
  if (!lacks(now)) {
    return now;
  }
  const Steps steps = StepsOf(catalog, pool, store, space);
  if (lacks(At(catalog, pool, store, steps.After(steps.count)))) {
    return Error(Code::kNoSpace,
                 fmt::format("thin store '{}' has no room for {}", store.name(), HumanBytes(need.bytes)));
  }
  const uint64_t too_few = Greatest(
      steps.count - 1, [&](uint64_t number) { return lacks(At(catalog, pool, store, steps.After(number))); });
  return At(catalog, pool, store, steps.After(too_few + 1));
}

Result<Plan> PlanStoreGrowth(const Catalog& catalog, const PoolConfig& pool, const Store& store, Bytes data) {
  const lvm::VolumeGroup& group = *catalog.group;
  QUARRY_ASSIGN(const More more, MoreFor(catalog, pool, store, data));
  Plan plan;
  if (more.data == Extents{} && more.metadata == Extents{}) {
    return plan;
  }
  QUARRY_TRY(CheckShare(catalog, pool, more.geometry, more.data, false));
  lvm::FreeSpace space = PoolSpace(catalog, pool);
  plan.push_back(StartStoreAction{group.name, store.lv->name});
  if (more.metadata > Extents{}) {
    QUARRY_ASSIGN(Plan first, PlanPart(space, catalog, store, *store.metadata, more.metadata));
    std::ranges::move(first, std::back_inserter(plan));
  }
  if (more.data == Extents{}) {
    return plan;
  }
  QUARRY_ASSIGN(Plan second, PlanPart(space, catalog, store, *store.data, more.data));
  std::ranges::move(second, std::back_inserter(plan));
  const Bytes size = store.data->size + ToBytes(more.data, group.extent_size);
  plan.push_back(
      lvm::ChangeTags{group.name, store.lv->name, {lvm::SizeTag(size)}, {lvm::SizeTag(store.tags.size)}});
  return plan;
}

namespace {

Error Full(const Catalog& catalog, const PoolConfig& pool, const Store& store, const StoreSpace& space,
           Bytes wanted) {
  if (space.blocked) {
    return {Code::kPrecondition, space.why};
  }
  const std::string aside =
      space.margin > Bytes{} ? fmt::format(" beside {} for copies of shared chunks", HumanBytes(space.margin))
                             : "";
  const std::string now =
      space.why.empty()
          ? fmt::format("thin store '{}' has {} of {} left{}, {} are wanted", store.name(),
                        HumanBytes(space.largest), HumanBytes(space.data), aside, HumanBytes(wanted))
          : space.why;
  const StoreConfig rules = RulesOf(pool, store);
  if (rules.most <= space.data) {
    return {Code::kNoSpace, now};
  }
  const Bytes most = LargestTerms(catalog, pool, store, PoolSpace(catalog, pool)).data;
  return {Code::kNoSpace,
          fmt::format("{}; its configuration lets it grow to {}, pool '{}' has space for {}, "
                      "and that is not enough for {} more",
                      now, HumanBytes(rules.most), pool.name, HumanBytes(most), HumanBytes(wanted))};
}

}  // namespace

Result<StoreRoom> PlanRoom(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                           const StoreNeed& need) {
  const auto space = [&](const StoreTerms& terms) {
    return SpaceOf(catalog, store, terms, need.grows, need.what, need.count);
  };
  const auto terms = TermsFor(catalog, pool, store, PoolSpace(catalog, pool), need);
  if (!terms.has_value()) {
    return Full(catalog, pool, store, space(TermsOf(store, pool)), need.bytes);
  }
  StoreRoom room{{}, space(*terms).largest};
  if (terms->data > store.data->size) {
    QUARRY_ASSIGN(room.growth, PlanStoreGrowth(catalog, pool, store, terms->data));
  }
  return room;
}

}  // namespace quarry::engine
