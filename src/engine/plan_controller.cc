#include "engine/plan_controller.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/disk_health.h"
#include "engine/sizing.h"

namespace quarry::engine {
namespace {

constexpr Bytes kErasePiece = kGiB;

}  // namespace

Result<CreatePlan> PlanCreate(const Catalog& catalog, const CreateWish& wish, const PoolConfig& pool,
                              const lvm::FreeSpace* within) {
  const lvm::VolumeGroup& group = *catalog.group;
  const lvm::Geometry& geometry = wish.profile.geometry;
  QUARRY_TRY(CheckShare(catalog, pool, geometry, wish.size, true));
  auto placed =
      lvm::Place(within != nullptr ? *within : PoolSpace(catalog, pool), geometry, wish.size, group);
  if (!placed.has_value()) {
    return TellOfWithheld(std::move(placed.error()), catalog);
  }
  const lvm::Placement& placement = *placed;
  const lvm::VolumeTags tags{
      .state = lvm::VolumeState::kReady,
      .id = lvm::VolumeId(wish.profile.pool, wish.lv_name),
      .co_name = wish.name,
      .size = ToBytes(placement.logical_extents, group.extent_size),
      .profile = wish.profile.Canonical(),
      .access = wish.access.access,
      .fs_type = wish.access.fs_type,
      .formatted = "",
      .erase = std::string(EraseName(wish.profile.erase)),
      .ephemeral = wish.ephemeral,
  };
  CreatePlan plan;
  plan.actions.push_back(CreateLvAction{{.group = group.name,
                                         .name = wish.lv_name,
                                         .geometry = geometry,
                                         .step = placement.steps.front(),
                                         .tags = {std::string(lvm::kCreatingTag)}}});
  for (size_t i = 1; i < placement.steps.size(); ++i) {
    plan.actions.push_back(ExtendLvAction{{group.name, wish.lv_name, geometry, placement.steps[i]}});
  }
  plan.actions.push_back(VerifyLayoutAction{group.name, wish.lv_name, placement});
  plan.actions.push_back(
      RetagAction{group.name, wish.lv_name, lvm::BuildTags(tags), {std::string(lvm::kCreatingTag)}});
  plan.volume = Describe(Record{wish.profile.pool, catalog.group, nullptr, tags});
  return plan;
}

Result<Plan> PlanExpand(const Catalog& catalog, const Record& record, const Profile& profile, Extents size,
                        const PoolConfig& pool, const lvm::FreeSpace* within) {
  const lvm::VolumeGroup& group = *catalog.group;
  const Extents now = CeilToExtents(record.lv->size, group.extent_size);
  Plan plan;
  if (size > now) {
    QUARRY_TRY(CheckShare(catalog, pool, profile.geometry, size - now, false));
    auto growth = lvm::PlaceGrowth(within != nullptr ? *within : PoolSpace(catalog, pool), profile.geometry,
                                   group, *record.lv, size - now);
    if (!growth.has_value()) {
      return TellOfWithheld(std::move(growth.error()), catalog);
    }
    for (const lvm::PlacementStep& step : growth->steps) {
      plan.push_back(ExtendLvAction{{group.name, record.lv->name, profile.geometry, step}});
    }
    plan.push_back(VerifyLayoutAction{group.name, record.lv->name, *growth});
  }
  const Bytes bytes = ToBytes(size, group.extent_size);
  if (bytes != record.tags.size) {
    plan.push_back(
        RetagAction{group.name, record.lv->name, {lvm::SizeTag(bytes)}, {lvm::SizeTag(record.tags.size)}});
  }
  return plan;
}

ErasePolicy PolicyOf(const Record& record) {
  for (const ErasePolicy policy : {ErasePolicy::kDiscard, ErasePolicy::kNone}) {
    if (EraseName(policy) == record.tags.erase) {
      return policy;
    }
  }
  return ErasePolicy::kZero;  // the safe one
}

Plan PlanDelete(const Record& record, ErasePolicy policy) {
  const std::string& group = record.group->name;
  if (policy == ErasePolicy::kNone) {
    return {RemoveLvAction{group, {record.lv->name}}};  // which deactivates, or fails like it
  }
  return {DeactivateAction{group, record.lv->name, record.DmUuids()},
          RetagAction{group,
                      record.lv->name,
                      {lvm::StateTag(lvm::VolumeState::kErasing)},
                      {lvm::StateTag(lvm::VolumeState::kReady)}}};
}

Result<Plan> PlanErase(const Record& record, ErasePolicy policy) {
  if (policy == ErasePolicy::kNone) {
    return Plan{};
  }
  const auto method = policy == ErasePolicy::kDiscard ? dm::EraseMethod::kDiscard : dm::EraseMethod::kZero;
  return PlanEraseRanges(*record.group, lvm::PhysicalExtents(*record.group, *record.lv), method)
      .Context(fmt::format("volume {}", record.tags.id));
}

Result<Plan> PlanEraseRanges(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& ranges,
                             dm::EraseMethod method) {
  Plan plan;
  for (const lvm::PhysicalRange& range : ranges) {
    if (group.LacksPv(range.pv_uuid)) {
      return Error(Code::kUnavailable,
                   fmt::format("disk {} of volume group {} is missing, so its extents cannot be erased; "
                               "return the disk, or remove the logical volume",
                               range.pv_uuid, group.name));
    }
    const lvm::PhysicalVolume* const pv = group.FindPv(range.pv_uuid);
    const Bytes start = pv->pe_start + ToBytes(range.range.first, group.extent_size);
    const Bytes length = ToBytes(range.range.count, group.extent_size);
    for (Bytes done; done < length;) {
      const Bytes piece = std::min(kErasePiece, length - done);
      plan.push_back(EraseAction{
          {.device = pv->device, .pv_uuid = pv->uuid, .offset = start + done, .length = piece}, method});
      done = done + piece;
    }
  }
  return plan;
}

}  // namespace quarry::engine
