#include "engine/plan/plan_cow.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/model/sizing.h"
#include "engine/plan/plan_volume.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

// On one disk if there is one with that much space: then a store is lost as a whole, or not at all. If
// possible on a disk that the volume does not use, because writes to the volume become reads there and writes
// here.
Result<lvm::Placement> PlaceStore(const lvm::FreeSpace& space, const lvm::Geometry& linear, Extents size,
                                  const Record& volume, const lvm::VolumeGroup& group) {
  QUARRY_ASSIGN(lvm::Placement anywhere, lvm::Place(space, linear, size, group));
  std::vector<lvm::FreePv> pvs = space.pvs;
  std::ranges::stable_partition(pvs, [&](const lvm::FreePv& pv) {
    return std::ranges::none_of(lvm::LegsOn(group, *volume.lv, pv.uuid), std::identity());
  });
  for (lvm::FreePv& pv : pvs) {
    lvm::FreeSpace alone = space;
    alone.pvs = {std::move(pv)};
    alone.reserve = {};  // the group as a whole keeps it, wherever the store goes
    if (auto placed = lvm::Place(alone, linear, size, group); placed.has_value()) {
      return placed;
    }
  }
  return anywhere;
}

bool IsLost(const Record& store, const std::set<std::string>& given_up) {
  return std::ranges::all_of(lvm::PhysicalExtents(*store.group, *store.lv), [&](const auto& range) {
    return store.group->LacksPv(range.pv_uuid) && given_up.contains(range.pv_uuid);
  });
}

}  // namespace

Result<Plan> PlanKeep(const Catalog& catalog, const Record& volume, const PoolConfig& pool,
                      const std::string& store, const std::string& node_hash) {
  const lvm::VolumeGroup& group = *catalog.group;
  const Extents size = lvm::CowStoreSize(volume.lv->size, group.extent_size);
  QUARRY_ASSIGN(const Profile profile,
                Profile::Parse({{"erase", std::string(EraseName(PolicyOf(volume)))}}, pool.name));
  // Not limited by the share of its type: it is there for the time of the copy only.
  auto placed = PlaceStore(PoolSpace(catalog, pool), profile.geometry, size, volume, group);
  if (!placed.has_value()) {
    const bool never = placed.error().code() == Code::kOutOfRange;  // of the store, not of the request
    return ReportExcluded(never ? std::move(placed.error()).As(Code::kNoSpace) : std::move(placed.error()),
                          catalog)
        .Context(
            fmt::format("{} is in use, so its copy needs a temporary store of {} for what changes meanwhile",
                        InWords(volume), HumanBytes(ToBytes(size, group.extent_size))));
  }
  const lvm::VolumeTags tags{.state = lvm::VolumeState::kErasing,
                             .id = lvm::VolumeId(pool.name, store, node_hash),
                             .co_name = "temporary store of a copy of " + volume.tags.id,
                             .size = ToBytes(size, group.extent_size),
                             .profile = profile.Canonical(),
                             .access = std::string(AccessName(Access::kBlock)),
                             .fs_type = "",
                             .formatted = "",
                             .erase = std::string(EraseName(profile.erase)),
                             .erased = "",
                             .scrubbed = "",
                             .source = volume.tags.id,
                             .cow = true};
  return Plan{lvm::CreateCow{.group = group.name,
                             .name = volume.lv->name,
                             .store = store,
                             .step = placed->steps.front(),
                             .tags = lvm::BuildTags(tags)},
              VerifyLayoutAction{.group = group.name, .name = store, .placement = *placed}};
}

const lvm::LogicalVolume* KeptVolume(const Record& store) {
  if (!store.tags.cow || !lvm::IsOurLvName(store.lv->name) || store.lv->origin.empty()) {
    return nullptr;
  }
  const lvm::LogicalVolume* const kept = store.group->FindLv(store.lv->origin);
  return kept != nullptr && lvm::BearsId(kept->tags, store.tags.source) ? kept : nullptr;
}

Plan PlanEndKeeping(const Record& store, const lvm::LogicalVolume& kept,
                    const std::set<std::string>& given_up) {
  const std::string& group = store.group->name;
  if (IsLost(store, given_up)) {
    return {lvm::DropCow{.group = group, .name = kept.name, .store = store.lv->name}};
  }
  return {lvm::SplitCow{.group = group, .name = kept.name, .store = store.lv->name}};
}

bool HasSnapshot(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  return std::ranges::find(group.lvs, lv.name, &lvm::LogicalVolume::origin) != group.lvs.end();
}

}  // namespace quarry::engine
