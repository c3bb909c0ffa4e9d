#include "engine/plan/plan_thin.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/plan/store_growth.h"
#include "engine/plan/zeroed_extents.h"

namespace quarry::engine {
namespace {

constexpr Bytes kLeastHeadroom{64 * kMiB.value};

// Where the metadata of a store go: on two disks if its data survive the loss of one.
Result<lvm::Geometry> MetadataGeometry(const lvm::Geometry& data) {
  return lvm::Geometry::Make(data.has_metadata()
                                 ? lvm::GeometryRequest{.type = lvm::VolumeType::kRaid1, .mirrors = 1}
                                 : lvm::GeometryRequest{});
}

// The steps for one of the two volumes, which take their space from `space`.
Result<Plan> PlanPart(lvm::FreeSpace& space, const Catalog& catalog, const lvm::Geometry& geometry,
                      Extents size, const std::string& name, Bytes max_recovery_rate) {
  const lvm::VolumeGroup& group = *catalog.group;
  auto placed = lvm::Place(space, geometry, size, group);
  if (!placed.has_value()) {
    return ReportExcluded(std::move(placed.error()), catalog);
  }
  Plan plan;
  plan.push_back(lvm::CreateLv{.group = group.name,
                               .name = name,
                               .geometry = geometry,
                               .step = placed->steps.front(),
                               .tags = {std::string(lvm::kCreatingTag)},
                               .max_recovery_rate = max_recovery_rate});
  for (size_t i = 1; i < placed->steps.size(); ++i) {
    plan.push_back(lvm::ExtendLv{group.name, name, geometry, placed->steps[i]});
  }
  TakeOut(*placed, space);
  plan.push_back(VerifyLayoutAction{.group = group.name, .name = name, .placement = std::move(*placed)});
  return plan;
}

// With what may be written until the cut. `most` is more than the need.
StoreNeed WithHeadroom(StoreNeed need, Bytes most) {
  const Bytes headroom{std::max(need.bytes.value / 8, kLeastHeadroom.value)};
  need.bytes = std::min(most, need.bytes + headroom);
  return need;
}

// Of a complete volume or snapshot in the store.
lvm::VolumeTags TagsOf(const Store& store, CreateWish wish, Bytes size) {
  wish.profile.store = store.name();
  lvm::VolumeTags tags = ReadyTags(wish, size);
  tags.thin = true;
  return tags;
}

}  // namespace

void TakeOut(const lvm::Placement& placement, lvm::FreeSpace& space) {
  std::vector<lvm::PhysicalRange> taken;
  for (const lvm::Leg& leg : placement.legs) {
    taken.insert(taken.end(), leg.data.begin(), leg.data.end());
    taken.insert(taken.end(), leg.metadata.begin(), leg.metadata.end());
  }
  const auto by_pv = ByPv(taken);
  for (lvm::FreePv& pv : space.pvs) {
    if (const auto here = by_pv.find(pv.uuid); here != by_pv.end()) {
      pv.free = Without(pv.free, here->second);
    }
  }
  std::erase_if(space.pvs, [](const lvm::FreePv& pv) { return pv.free.empty(); });
}

Result<Plan> PlanMakeStore(const Catalog& catalog, const PoolConfig& pool, const StoreConfig& store,
                           const StoreNames& names, const std::string& node_hash, Bytes max_recovery_rate) {
  const lvm::VolumeGroup& group = *catalog.group;
  if (group.extent_size.value % store.chunk.value != 0) {
    return Error(Code::kPrecondition,
                 fmt::format("volume group {} has extents of {}, which are no multiple of its chunks of {}",
                             group.name, HumanBytes(group.extent_size), HumanBytes(store.chunk)));
  }
  const Extents size = lvm::RoundUp(store.geometry, store.size, group.extent_size);
  QUARRY_TRY(CheckShare(catalog, pool, store.geometry, size, true));
  QUARRY_ASSIGN(const lvm::Geometry metadata, MetadataGeometry(store.geometry));
  const StoreTerms terms{
      .data = ToBytes(size, group.extent_size), .metadata = {}, .overcommit = store.overcommit};
  QUARRY_ASSIGN(const Bytes metadata_size, terms.FittingMetadata(store.chunk));
  lvm::FreeSpace space = PoolSpace(catalog, pool);
  QUARRY_ASSIGN(Plan plan, PlanPart(space, catalog, store.geometry, size, names.data, max_recovery_rate));
  QUARRY_ASSIGN(Plan second,
                PlanPart(space, catalog, metadata, CeilToExtents(metadata_size, group.extent_size),
                         names.metadata, max_recovery_rate)
                    .Context("its metadata"));
  std::ranges::move(second, std::back_inserter(plan));
  const Profile profile{.pool = pool.name, .geometry = store.geometry};
  const lvm::VolumeTags tags{
      .state = lvm::VolumeState::kReady,
      .id = fmt::format("{}{}{}.store.{}", pool.name, node_hash.empty() ? "" : ".", node_hash, store.name),
      .co_name = store.name,
      .size = ToBytes(size, group.extent_size),
      .profile = profile.Canonical(),
      .access = std::string(AccessName(Access::kBlock)),
      .erase = std::string(EraseName(ErasePolicy::kZero)),
      .store = true};
  plan.push_back(lvm::AllocateAnywhere{group.name, names.metadata});
  plan.push_back(
      lvm::MakeThinPool{.group = group.name,
                        .name = names.data,
                        .metadata = names.metadata,
                        .chunk_size = store.chunk,
                        // A trimmed chunk is free again only after the metadata snapshot that is held for
                        // a moment. Until then a write in a full store waits, and does not fail.
                        .error_when_full = false});
  plan.push_back(lvm::SkipActivation{group.name, names.data});
  plan.push_back(
      lvm::ChangeTags{group.name, names.data, lvm::BuildTags(tags), {std::string(lvm::kCreatingTag)}});
  return plan;
}

Result<CreatePlan> PlanCreateThin(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                                  const CreateWish& wish) {
  const lvm::VolumeGroup& group = *catalog.group;
  const Bytes size = ToBytes(wish.size, group.extent_size);
  QUARRY_ASSIGN(StoreRoom room, PlanRoom(catalog, pool, store, {.bytes = size}));
  const lvm::VolumeTags tags = TagsOf(store, wish, size);
  CreatePlan plan;
  plan.actions = std::move(room.growth);
  Plan steps = {
      StartStoreAction{group.name, store.lv->name},
      ProveNextDeviceAction{group.name, store.lv->name},
      lvm::CreateThinLv{.group = group.name,
                        .name = wish.lv_name,
                        .pool = store.lv->name,
                        .size = size,
                        .tags = {std::string(lvm::kCreatingTag)}},
      ProveBlankAction{group.name, wish.lv_name, wish.name},
      lvm::ChangeTags{group.name, wish.lv_name, lvm::BuildTags(tags), {std::string(lvm::kCreatingTag)}},
  };
  if (store.tags.cuts && !WasCut(catalog, store)) {  // everything that shared chunks is gone
    plan.actions.push_back(lvm::ChangeTags{group.name, store.lv->name, {}, {lvm::CutsTag()}});
  }
  std::ranges::move(steps, std::back_inserter(plan.actions));
  plan.volume = Describe(Record{wish.profile.pool, catalog.group, nullptr, tags});
  return plan;
}

StoreNeed NeedOf(const Catalog& catalog, const std::vector<CutWish>& wishes, Bytes mapped) {
  const Bytes extent = catalog.group->extent_size;
  if (wishes.front().wish.cut.has_value()) {
    return {.bytes = std::max(ToBytes(CeilToExtents(mapped, extent), extent), extent),
            .what = Addition::kSnapshots,
            .count = wishes.size()};
  }
  Bytes sum;
  for (const CutWish& one : wishes) {
    sum = sum + ToBytes(one.wish.size, extent);
  }
  return {.bytes = sum, .what = Addition::kCopy, .count = wishes.size()};
}

Result<CutPlan> PlanCut(const Catalog& catalog, const PoolConfig& pool, const Store& store,
                        const std::vector<CutWish>& wishes, const MappedBytesOf& mapped, const CutGroup& of) {
  const lvm::VolumeGroup& group = *catalog.group;
  const bool snapshots = wishes.front().wish.cut.has_value();
  const StoreNeed need = NeedOf(catalog, wishes, mapped.now);
  QUARRY_ASSIGN(StoreRoom room, PlanRoom(catalog, pool, store, need));
  if (!room.growth.empty() && mapped.most > need.bytes) {
    auto more = PlanRoom(catalog, pool, store, WithHeadroom(need, mapped.most));
    if (more.has_value()) {
      room = std::move(*more);
    }
  }
  CutPlan plan;
  plan.actions = std::move(room.growth);
  plan.actions.push_back(StartStoreAction{group.name, store.lv->name});
  if (!store.tags.cuts) {
    plan.actions.push_back(lvm::ChangeTags{group.name, store.lv->name, {lvm::CutsTag()}, {}});
  }
  CutAction cut{.group = group.name, .pool = store.lv->name};
  for (const CutWish& one : wishes) {
    const Bytes size = ToBytes(one.wish.size, group.extent_size);
    lvm::VolumeTags tags = TagsOf(store, one.wish, size);
    tags.mapped = snapshots ? std::min(size, room.largest) : Bytes{};
    if (!of.name.empty()) {
      tags.group = of.id;
      tags.group_name = of.name;
      tags.group_members = wishes.size();
    }
    plan.volumes.push_back(Describe(Record{one.wish.profile.pool, catalog.group, nullptr, tags}));
    plan.tags.push_back(tags);
    tags.state = lvm::VolumeState::kErasing;
    plan.actions.push_back(ProveNextDeviceAction{group.name, store.lv->name});
    plan.actions.push_back(lvm::CreateThinLv{.group = group.name,
                                             .name = one.wish.lv_name,
                                             .pool = store.lv->name,
                                             .size = size,
                                             .tags = lvm::BuildTags(tags),
                                             .read_only = snapshots});
    plan.actions.push_back(ProveBlankAction{group.name, one.wish.lv_name});
    cut.members.push_back({one.wish.lv_name, one.origin->lv->name, one.origin->lv->uuid});
  }
  if (snapshots) {
    cut.most_mapped = room.largest;  // the origins may be written to until the cut
  }
  plan.actions.push_back(std::move(cut));
  return plan;
}

lvm::ChangeTags PlanReady(const std::string& group, const std::string& lv_name, lvm::VolumeTags planned,
                          lvm::VolumeTags now) {
  planned.state = lvm::VolumeState::kErasing;
  now.state = lvm::VolumeState::kReady;
  lvm::ChangeTags change{group, lv_name, lvm::BuildTags(now), lvm::BuildTags(planned)};
  const std::vector<std::string> before = change.remove;
  std::erase_if(change.remove, [&](const std::string& tag) {
    return std::ranges::find(change.add, tag) != change.add.end();
  });
  std::erase_if(change.add,
                [&](const std::string& tag) { return std::ranges::find(before, tag) != before.end(); });
  return change;
}

Result<Plan> PlanExpandThin(const Catalog& catalog, const Record& record, Extents size, Bytes asked) {
  const lvm::VolumeGroup& group = *catalog.group;
  const Bytes bytes = ToBytes(size, group.extent_size);
  Plan plan;
  if (bytes > record.lv->size) {
    const Store* const store = catalog.StoreOf(*record.lv);
    if (store == nullptr) {
      return Error(Code::kPrecondition,
                   fmt::format("volume {} is in no thin store of Quarry's", record.tags.id));
    }
    plan.push_back(StartStoreAction{group.name, store->lv->name});
    plan.push_back(
        EndRemovalsAction{group.name, store->lv->name});  // LVM does it only if it creates or removes
    plan.push_back(lvm::ExtendThinLv{group.name, record.lv->name, bytes});
  }
  if (bytes != record.tags.size) {
    plan.push_back(PlanSizeTags(record, bytes, asked));
  }
  return plan;
}

lvm::ChangeTags PlanSizeTags(const Record& record, Bytes size, Bytes asked) {
  lvm::ChangeTags tags{
      record.group->name, record.lv->name, {lvm::SizeTag(size)}, {lvm::SizeTag(record.tags.size)}};
  const Bytes known = asked < size ? asked : Bytes{};
  if (known != record.tags.asked) {
    if (known > Bytes{}) {
      tags.add.push_back(lvm::AskedTag(known));
    }
    if (record.tags.asked > Bytes{}) {
      tags.remove.push_back(lvm::AskedTag(record.tags.asked));
    }
  }
  return tags;
}

}  // namespace quarry::engine
