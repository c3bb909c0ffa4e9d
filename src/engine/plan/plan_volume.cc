#include "engine/plan/plan_volume.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/model/inline_limits.h"
#include "engine/model/sizing.h"
#include "engine/model/taken_out.h"
#include "engine/plan/plan_thin.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

constexpr Bytes kErasePiece = kGiB;

// LVM allocates only the extents that it was told to allocate. So it is enough to compare the geometry with
// the profile if the plan is lost.
Status CheckGeometry(const Record& record, const Profile& profile, std::string_view cause) {
  const auto geometry = lvm::GeometryOf(*record.group, *record.lv);
  if (geometry.has_value() && geometry->type() == profile.geometry.type() &&
      geometry->legs() == profile.geometry.legs() &&
      geometry->stripe_size() == profile.geometry.stripe_size()) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("volume {}: {}: it {}; inspect it with lvs. If two legs share a disk, move one of them to "
                  "another disk (pvmove)",
                  record.tags.id, cause,
                  geometry.has_value() ? "is " + geometry->Describe() : geometry.error().message()));
}

// The commit that turns a whole copy into a volume or snapshot.
lvm::ChangeTags BecomesReady(const std::string& group, const std::string& name, bool snapshot,
                             const std::string& copying) {
  std::vector<std::string> unfinished = lvm::StateTags(lvm::VolumeState::kErasing, snapshot);
  unfinished.push_back(lvm::CopyingTag(copying));
  return {group, name, lvm::StateTags(lvm::VolumeState::kReady, snapshot), std::move(unfinished)};
}

}  // namespace

lvm::VolumeTags ReadyTags(const CreateWish& wish, Bytes size) {
  return {
      .state = lvm::VolumeState::kReady,
      .id = lvm::VolumeId(wish.profile.pool, wish.lv_name, wish.node_hash),
      .co_name = wish.name,
      .size = size,
      .profile = wish.profile.Canonical(),
      .access = std::string(AccessName(wish.access.access)),
      .fs_type = wish.access.fs_type,
      .formatted = wish.formatted,
      .erase = std::string(EraseName(wish.profile.erase)),
      .ephemeral = wish.ephemeral,
      .asked = wish.asked < size ? wish.asked : Bytes{},
      .source = wish.source.is_snapshot ? "" : wish.source.id,
      .restored = wish.source.is_snapshot ? wish.source.id : "",
      .s3 = wish.s3,
      .snapshot = wish.cut.has_value(),
      .cut = wish.cut.has_value() ? wish.cut->time : 0,
      .length = wish.cut.has_value() ? wish.cut->length : Bytes{},
  };
}

Result<CreatePlan> PlanCreate(const Catalog& catalog, const CreateWish& wish, const PoolConfig& pool,
                              const lvm::FreeSpace* within) {
  const lvm::VolumeGroup& group = *catalog.group;
  const lvm::Geometry& geometry = wish.profile.geometry;
  QUARRY_TRY(CheckShare(catalog, pool, geometry, wish.size, true));
  auto placed =
      lvm::Place(within != nullptr ? *within : PoolSpace(catalog, pool), geometry, wish.size, group);
  if (!placed.has_value()) {
    return ReportExcluded(std::move(placed.error()), catalog);
  }
  const lvm::Placement& placement = *placed;
  if (wish.ephemeral) {
    QUARRY_TRY(CheckEphemeralRoom(catalog, pool, placement));
  }
  const Bytes size = ToBytes(placement.logical_extents, group.extent_size);
  const lvm::VolumeTags tags = ReadyTags(wish, size);
  CreatePlan plan;
  plan.actions.push_back(lvm::CreateLv{.group = group.name,
                                       .name = wish.lv_name,
                                       .geometry = geometry,
                                       .step = placement.steps.front(),
                                       .tags = {std::string(lvm::kCreatingTag)}});
  for (size_t i = 1; i < placement.steps.size(); ++i) {
    plan.actions.push_back(lvm::ExtendLv{group.name, wish.lv_name, geometry, placement.steps[i]});
  }
  plan.actions.push_back(VerifyLayoutAction{.group = group.name,
                                            .name = wish.lv_name,
                                            .placement = placement,
                                            .co_name = wish.name,
                                            .snapshot = tags.snapshot});
  plan.actions.push_back(
      lvm::ChangeTags{group.name, wish.lv_name, lvm::BuildTags(tags), {std::string(lvm::kCreatingTag)}});
  plan.volume = Describe(Record{wish.profile.pool, catalog.group, nullptr, tags});
  return plan;
}

bool CommitOnce(Plan& plan, uint64_t seqno) {
  lvm::CreateLv* const create = plan.empty() ? nullptr : Find<lvm::CreateLv>(plan.front());
  const lvm::ChangeTags* const tags = plan.empty() ? nullptr : Find<lvm::ChangeTags>(plan.back());
  const bool one_step = plan.size() == 3 && std::holds_alternative<VerifyLayoutAction>(plan[1]);
  if (create == nullptr || tags == nullptr || !one_step || !lvm::CanCreateUnderLock(create->geometry)) {
    return false;
  }
  create->tags = tags->add;
  create->wipe = lvm::Wipe::kNone;
  create->seqno = seqno;
  plan.pop_back();
  return true;
}

Plan StopBeforeReady(Plan& plan, const std::string& copying) {
  lvm::ChangeTags& tags = *Find<lvm::ChangeTags>(plan.back());
  auto verify = std::get<VerifyLayoutAction>(plan[plan.size() - 2]);
  verify.seqno
      .reset();  // other processes may commit during the copy: the LV is open, and its layout is verified
  const auto ready = lvm::StateTags(lvm::VolumeState::kReady, verify.snapshot);
  const auto erasing = lvm::StateTags(lvm::VolumeState::kErasing, verify.snapshot);
  for (size_t i = 0; i < ready.size(); ++i) {
    std::ranges::replace(tags.add, ready[i], erasing[i]);
  }
  tags.add.push_back(lvm::CopyingTag(copying));
  lvm::ChangeTags last = BecomesReady(tags.group, tags.name, verify.snapshot, copying);
  Plan rest = {std::move(verify), std::move(last)};
  plan.insert(plan.end() - 1, ActivateAction{tags.group, {tags.name}});
  return rest;
}

Result<Plan> PlanRestOf(const Record& copy) {
  QUARRY_ASSIGN(const Profile profile, copy.profile);
  QUARRY_TRY(CheckGeometry(copy, profile, "its layout is not that of its profile"));
  QUARRY_ASSIGN(lvm::Placement placement, lvm::PlacementOf(*copy.group, *copy.lv));
  const std::string& group = copy.group->name;
  const bool snapshot = copy.tags.snapshot;
  return Plan{VerifyLayoutAction{.group = group,
                                 .name = copy.lv->name,
                                 .placement = std::move(placement),
                                 .co_name = copy.tags.co_name,
                                 .snapshot = snapshot},
              BecomesReady(group, copy.lv->name, snapshot, copy.tags.copying)};
}

Status CheckLayout(const Record& record, const Profile& profile) {
  // An administrator may have grown, moved or converted it since. That is no reason to refuse it.
  const bool as_made = lvm::CanCreateUnderLock(profile.geometry) && !record.lv->IsRaid() &&
                       record.lv->size == record.tags.size && record.tags.formatted.empty() &&
                       lvm::OwnedExtents(*record.group, *record.lv).has_value();
  return as_made ? CheckGeometry(record, profile, "its layout is not that of its profile") : Ok();
}

Result<Plan> PlanExpand(const Catalog& catalog, const Record& record, const Profile& profile, Extents size,
                        Bytes asked, const PoolConfig& pool, const lvm::FreeSpace* within) {
  const lvm::VolumeGroup& group = *catalog.group;
  const Extents now = CeilToExtents(record.lv->size, group.extent_size);
  Plan plan;
  if (size > now) {
    QUARRY_TRY(CheckShare(catalog, pool, profile.geometry, size - now, false));
    auto growth = lvm::PlaceGrowth(within != nullptr ? *within : PoolSpace(catalog, pool), profile.geometry,
                                   group, *record.lv, size - now);
    if (!growth.has_value()) {
      return ReportExcluded(std::move(growth.error()), catalog);
    }
    for (const lvm::PlacementStep& step : growth->steps) {
      plan.push_back(lvm::ExtendLv{group.name, record.lv->name, profile.geometry, step});
    }
    plan.push_back(VerifyLayoutAction{group.name, record.lv->name, *growth});
  }
  const Bytes bytes = ToBytes(size, group.extent_size);
  if (bytes != record.tags.size) {
    if (record.lv->size > record.tags.size) {
      QUARRY_TRY(CheckGeometry(record, profile, "a growth that was cut off left it with a wrong layout"));
    }
    plan.push_back(PlanSizeTags(record, bytes, asked));
  }
  return plan;
}

ErasePolicy PolicyOf(const Record& record) {
  for (const ErasePolicy policy : {ErasePolicy::kDiscard, ErasePolicy::kNone}) {
    if (EraseName(policy) == record.tags.erase) {
      return policy;
    }
  }
  return ErasePolicy::kZero;  // the safe policy
}

Plan PlanDelete(const Record& record, ErasePolicy policy) {
  const std::string& group = record.group->name;
  if (policy == ErasePolicy::kNone) {
    return {RemoveLvAction{
        .group = group, .names = {record.lv->name}, .thin = record.tags.thin}};  // also deactivates
  }
  const bool is_thick_snapshot = record.tags.snapshot && !record.tags.thin;
  std::vector<std::string> away = lvm::StateTags(lvm::VolumeState::kReady, is_thick_snapshot);
  if (!record.tags.copying
           .empty()) {  // an administrator has left it: a deleted volume is no copy to go on with
    away.push_back(lvm::CopyingTag(record.tags.copying));
  }
  return {DeactivateAction{group, record.lv->name, record.DmUuids()},
          lvm::ChangeTags{group, record.lv->name,
                          lvm::StateTags(lvm::VolumeState::kErasing, is_thick_snapshot), std::move(away)}};
}

Plan PlanEndOf(const Catalog& catalog, const TakenOut& taken) {
  Plan plan;
  const Record* const record = VolumeOf(catalog, taken);
  for (const lvm::LogicalVolume* const part : taken.parts) {
    lvm::VolumeTags tags = record->tags;
    tags.state = lvm::VolumeState::kErasing;
    tags.id = lvm::VolumeId(record->pool, part->name);
    tags.size = part->size;
    tags.erased.clear();
    tags.scrubbed.clear();
    plan.push_back(
        lvm::ChangeTags{catalog.group->name, part->name, lvm::BuildTags(tags), lvm::TagsOfOurs(part->tags)});
  }
  return plan;
}

Result<Plan> PlanErase(const Record& record, ErasePolicy policy, const std::set<std::string>& given_up) {
  if (policy == ErasePolicy::kNone) {
    return Plan{};
  }
  const auto method = policy == ErasePolicy::kDiscard ? dm::EraseMethod::kDiscard : dm::EraseMethod::kZero;
  const std::string volume = fmt::format("volume {}", record.tags.id);
  QUARRY_ASSIGN(auto owned, lvm::OwnedExtents(*record.group, *record.lv).Context(volume));
  return PlanEraseRanges(*record.group, WithoutLost(*record.group, std::move(owned), given_up), method)
      .Context(volume);
}

std::vector<lvm::PhysicalRange> WithoutLost(const lvm::VolumeGroup& group,
                                            std::vector<lvm::PhysicalRange> ranges,
                                            const std::set<std::string>& given_up) {
  std::erase_if(ranges, [&](const lvm::PhysicalRange& range) {
    return given_up.contains(range.pv_uuid) && IsAway(group, range.pv_uuid);
  });
  return ranges;
}

bool IsAway(const lvm::VolumeGroup& group, const std::string& pv_uuid) {
  const lvm::PhysicalVolume* const pv = group.FindPv(pv_uuid);
  return group.LacksPv(pv_uuid) && (pv == nullptr || pv->device.empty());
}

Result<Plan> PlanEraseRanges(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& ranges,
                             dm::EraseMethod method) {
  Plan plan;
  for (const lvm::PhysicalRange& range : ranges) {
    if (group.LacksPv(range.pv_uuid)) {
      const bool away = IsAway(group, range.pv_uuid);
      return Error(
          Code::kUnavailable,
          fmt::format("disk {} of volume group {} {}", range.pv_uuid, group.name,
                      away ? "is missing, so its extents cannot be erased: return the disk, or give "
                             "it up (`quarryctl repair`)"
                           : "has returned, but LVM has not taken it back yet; quarryd keeps trying. If "
                             "the log reports that this fails, pull the disk out and give it up "
                             "(`quarryctl repair`)"));
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
