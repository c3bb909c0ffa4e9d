#include "engine/repair/plan_repair.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/model/failing_disks.h"
#include "engine/model/volume_health.h"
#include "engine/plan/plan_volume.h"
#include "engine/repair/plan_evacuation.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

// Whether a volume that needs a step may be changed. Adds the obstacle to the plan if not.
bool MayChange(const VolumeView& volume, RepairPlan& plan) {
  auto alone = CheckAlone(*volume.record);
  if (!alone.has_value()) {
    plan.obstacles.push_back(alone.error().message());
  }
  return alone.has_value();
}

// A disk that returned after the group was changed without it. LVM counts it as missing until it is taken
// back. If LVM refuses one disk, the other disks are still taken back and all other steps continue.
std::optional<RepairStep> TakeBack(const RepairView& view) {
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    if (pv.missing && !pv.device.empty() && !view.refused.contains(pv.uuid)) {
      return RepairStep{.actions = {lvm::RestorePv{view.group().name, pv.device}},
                        .kind = RepairKind::kTakeBack,
                        .disk = pv.uuid};
    }
  }
  return std::nullopt;
}

// Resumes a volume that a killed command left suspended: any I/O to it waits. Activation loads the table that
// the metadata describe.
std::optional<RepairStep> Resume(const RepairView& view) {
  for (const VolumeView& volume : view.volumes) {
    if (volume.suspended) {
      return RepairStep{{volume.record->tags.id},
                        {ActivateAction{view.group().name, {ActiveName(*volume.record)}}}};
    }
  }
  return std::nullopt;
}

bool HasStopped(const VolumeView& volume) {
  const Result<Profile>& profile = volume.record->profile;
  return volume.raid.has_value() && profile.has_value() &&
         engine::HasStopped(profile->geometry, *volume.raid);
}

// The tag that records the decision to start the legs of this record.
lvm::ChangeTags OverruleTags(const RepairView& view, const VolumeView& volume) {
  const Record& record = *volume.record;
  const Store* const store = view.catalog->StoreOfPart(record);
  const bool is_metadata = store != nullptr && store->metadata == record.lv;
  const auto tag = is_metadata ? &lvm::OverruledMetadataTag : &lvm::OverruledTag;
  const lvm::VolumeTags& tags = store == nullptr ? record.tags : store->tags;
  const uint64_t before = is_metadata ? tags.overruled_metadata : tags.overruled;
  return {view.group().name,
          ActiveName(record),
          {tag(volume.doubt->overruled)},
          before > 0 ? std::vector{tag(before)} : std::vector<std::string>()};
}

// Starts a stopped array from older legs. Only an administrator's request permits this. Once the volume is
// active, its superblocks say which legs count. Data and metadata of a store start together.
std::optional<RepairStep> StartAsAsked(const RepairView& view) {
  const auto wanted = [](const VolumeView& volume) {
    return volume.accepted && !volume.active && volume.doubt.has_value() && volume.doubt->may_override;
  };
  for (const VolumeView& volume : view.volumes) {
    if (!wanted(volume)) {
      continue;
    }
    const Store* const store = view.catalog->StoreOfPart(*volume.record);
    const auto is_other_part = [&](const VolumeView& other) {
      return &other != &volume && store != nullptr && view.catalog->StoreOfPart(*other.record) == store;
    };
    if (std::ranges::any_of(view.volumes, [&](const VolumeView& other) {
          return is_other_part(other) && other.doubt.has_value() && !wanted(other);
        })) {
      continue;  // the store would not start, and legs of one part would have been decided on for nothing
    }
    RepairStep step{.ids = {volume.record->tags.id}};
    // The tags come first. Otherwise a leg that is left out could later pass for current, if the chosen
    // legs are lost one day.
    for (const VolumeView& other : view.volumes) {
      if (&other == &volume || (is_other_part(other) && wanted(other))) {
        step.actions.emplace_back(OverruleTags(view, other));
      }
    }
    step.actions.push_back(ActivateAction{
        .group = view.group().name, .names = {ActiveName(*volume.record)}, .accept_older = true});
    return step;
  }
  return std::nullopt;
}

void AddActivation(const RepairView& view, const Store& store, RepairStep& step) {
  const auto names = view.activate.find(store.tags.id);
  if (names != view.activate.end() && !names->second.empty()) {
    step.actions.emplace_back(ActivateAction{view.group().name, names->second});
  }
}

// Starts a store that the kernel does not have: its disks came late, or an administrator has deactivated it.
// Nobody may ask for its volumes while its capacity is 0.
std::optional<RepairStep> StartStopped(const RepairView& view) {
  for (const std::string& name : view.stopped_stores) {
    const auto store =
        std::ranges::find(view.catalog->stores, name, [](const Store& one) { return one.lv->name; });
    const bool in_doubt = std::ranges::any_of(view.volumes, [&](const VolumeView& volume) {
      return volume.doubt.has_value() && view.catalog->StoreOfPart(*volume.record) == &*store;
    });
    if (!in_doubt) {
      RepairStep step{.ids = {store->tags.id},
                      .actions = {StartStoreAction{view.group().name, name}},
                      .kind = RepairKind::kStartStore};
      AddActivation(view, *store, step);
      return step;
    }
  }
  return std::nullopt;
}

// Starts an array again after all its disks are back. A process that had the volume open when it stopped gets
// I/O errors, and none of what that process wrote since was stored.
std::optional<RepairStep> StartAgain(const RepairView& view, RepairPlan& plan) {
  for (const VolumeView& volume : view.volumes) {
    const Record& record = *volume.record;
    if (!volume.active || record.lv->partial || !HasStopped(volume)) {
      continue;
    }
    if (IsPart(record)) {
      continue;  // RestartSick
    }
    if (volume.open) {
      plan.waiting = true;
      plan.obstacles.push_back(fmt::format(
          "volume {} has stopped because too many of its disks were missing at once. They are back. The "
          "volume is started again once it is closed: unmount or unpublish it",
          record.tags.id));
    } else if (volume.refresh_due && MayChange(volume, plan)) {
      const std::string& group = view.group().name;
      return RepairStep{{record.tags.id},
                        {DeactivateAction{group, record.lv->name}, ReviveAction{group, record.lv->name},
                         ActivateAction{group, {record.lv->name}}}};
    }
  }
  return std::nullopt;
}

// Stops and starts a store with which the kernel cannot go on. LVM checks the metadata of a pool that it
// starts, and takes away the mark that they must be checked: the same happens at a reboot. If they are
// damaged, the store stays stopped, and a person decides. While a volume is in use, what it can still read is
// worth more.
std::optional<RepairStep> RestartSick(const RepairView& view, RepairPlan& plan) {
  for (const SickStore& sick : view.sick_stores) {
    const std::string& group = view.group().name;
    const std::string& pool = sick.store->lv->name;
    const bool in_doubt = std::ranges::any_of(view.volumes, [&](const VolumeView& volume) {
      return volume.doubt.has_value() && view.catalog->StoreOfPart(*volume.record) == sick.store;
    });
    std::vector<std::string> open;
    for (const ActiveVolume& volume : sick.active) {
      if (volume.open_count > 0) {
        const auto record = std::ranges::find(view.catalog->records, volume.lv, &Record::lv);
        open.push_back(record == view.catalog->records.end() ? fmt::format("{}/{}", group, volume.lv->name)
                                                             : InWords(*record));
      }
    }
    if (!open.empty()) {
      plan.waiting = true;
      plan.obstacles.push_back(fmt::format(
          "thin store {} {}. quarryd stops and starts it once none of its volumes is in use: unmount or "
          "unpublish {}",
          sick.store->name(), sick.why, fmt::join(open, ", ")));
    } else if (sick.due && !in_doubt && !sick.store->lv->partial && view.group().MissingPvs() == 0) {
      RepairStep step{
          .ids = {sick.store->tags.id},
          .actions = {StopStoreAction{group, pool, view.group().seqno}, StartStoreAction{group, pool}},
          .kind = RepairKind::kStartStore};
      AddActivation(view, *sick.store, step);
      for (const Record& record : view.catalog->records) {
        if (record.lv->pool == pool && !record.tags.id.empty()) {
          step.ids.push_back(record.tags.id);
        }
      }
      return step;
    }
  }
  return std::nullopt;
}

// The PVs that the legs of a volume are moved off. A PV with a failed leg of the volume counts if attempts to
// take the leg back have failed, or if the disk is failing. A present PV with any leg of the volume counts if
// legs on it fail each time they are taken back.
std::set<std::string> PvsToLeave(const RepairView& view, const VolumeView& volume) {
  std::set<std::string> out;
  for (const std::string& uuid : FailedPvs(view, volume)) {
    if (volume.hopeless || view.catalog->weak.failing.contains(uuid)) {
      out.insert(uuid);
    }
  }
  for (const std::string& uuid : view.catalog->weak.dropping) {
    const std::vector<bool> there = lvm::LegsOn(view.group(), *volume.record->lv, uuid);
    if (!view.group().LacksPv(uuid) && std::ranges::find(there, true) != there.end()) {
      out.insert(uuid);
    }
  }
  return out;
}

// Replaces legs on a disk that is present but failing: they are rebuilt on other disks from the other legs.
// Where that is not possible, a failed leg is tried again at growing intervals.
std::optional<RepairStep> Abandon(const RepairView& view, RepairPlan& plan) {
  if (!view.may_replace_legs || view.group().MissingPvs() > 0) {
    return std::nullopt;  // LVM replaces a leg on a present disk only if no disk of the group is missing
  }
  for (const VolumeView& volume : view.volumes) {
    const Record& record = *volume.record;
    const Result<Profile>& profile = record.profile;
    if (volume.on_lost_disk || volume.doubt.has_value() || IsBusy(volume) || !profile.has_value() ||
        !profile->geometry.has_metadata() || HasStopped(volume)) {
      continue;
    }
    const std::set<std::string> leaving = PvsToLeave(view, volume);
    if (!leaving.empty() && !MayChange(volume, plan)) {
      continue;
    }
    for (const std::string& uuid : leaving) {
      const lvm::PhysicalVolume& pv = *view.group().FindPv(uuid);
      UnhealthyDisks avoid = view.catalog->weak;
      avoid.failing.emplace(uuid, "legs on it fail");
      auto step = ReplaceLegs(view, volume, profile->geometry,
                              {.which = lvm::LegsOn(view.group(), *record.lv, uuid),
                               .on = &pv,
                               .avoid = std::move(avoid),
                               .activate = !volume.active && !volume.raid.has_value(),
                               .kind = RepairKind::kReplaceLeg});
      if (step.has_value()) {
        return *std::move(step);
      }
      const std::string& no_place = step.error().no_place;
      plan.obstacles.push_back(
          fmt::format("volume {}: its leg on {}, where legs fail again and again, cannot be replaced: {}",
                      record.tags.id, pv.device,
                      no_place.empty() ? "the other legs do not suffice now"
                                       : no_place + "; add a disk to the group, or free space"));
    }
  }
  return std::nullopt;
}

// Refreshes volumes whose legs or disks have returned. LVM refuses to refresh a volume with a part on a
// missing disk.
std::optional<RepairStep> Refresh(const RepairView& view) {
  RepairStep step;
  std::vector<std::string> names;
  for (const VolumeView& volume : view.volumes) {
    if (volume.active && !volume.record->lv->partial && volume.refresh_due && !HasStopped(volume) &&
        !volume.doubt.has_value() && (volume.on_lost_disk || HasFailedLeg(volume))) {
      step.ids.push_back(volume.record->tags.id);
      const std::string name = ActiveName(*volume.record);
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  if (names.empty()) {
    return std::nullopt;
  }
  step.actions = {lvm::RefreshLvs{view.group().name, std::move(names)}};
  return step;
}

// LVM stores the rate with the volume, so it applies to every later sync.
std::optional<RepairStep> LimitRecovery(const RepairView& view, RepairPlan& plan) {
  if (!view.rebuild_rate.has_value() || view.group().MissingPvs() > 0) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const VolumeView& volume : view.volumes) {
    const lvm::LogicalVolume& lv = *volume.record->lv;
    // Setting the rate would restart a running scrub. LVM sets none for the metadata of a pool: a store is
    // made with it.
    if (!IsComparing(volume) && !IsPart(*volume.record) && HasRedundancy(lv) &&
        lv.segments.front().max_recovery_rate != *view.rebuild_rate && MayChange(volume, plan)) {
      names.push_back(lv.name);
    }
  }
  if (names.empty()) {
    return std::nullopt;
  }
  return RepairStep{.actions = {lvm::LimitRecovery{view.group().name, std::move(names), *view.rebuild_rate}},
                    .kind = RepairKind::kLimit};
}

// Whether all missing disks that hold a part of the volume have been given up.
bool MayRebuild(const RepairView& view, const Record& record) {
  const auto awaited = [&](const std::string& uuid) {
    return view.group().LacksPv(uuid) && !view.given_up.contains(uuid);
  };
  return std::ranges::none_of(lvm::LegPvs(view.group(), *record.lv),
                              [&](const auto& pvs) { return std::ranges::any_of(pvs, awaited); });
}

void Rebuild(const RepairView& view, const VolumeView& volume, RepairPlan& plan) {
  const Record& record = *volume.record;
  const std::vector<bool> lost = lvm::LostLegs(view.group(), *record.lv);
  if (std::ranges::find(lost, true) == lost.end()) {
    // LVM counts a volume as incomplete if the store of its copy is. The eraser removes that.
    plan.obstacles.push_back(
        fmt::format("volume {} is complete, but the temporary store of a copy of it is on a missing disk: it "
                    "can be activated again once that disk is back or given up",
                    record.tags.id));
    return;
  }
  const Result<Profile>& profile = record.profile;
  if (!profile.has_value()) {
    plan.obstacles.push_back(fmt::format("volume {}: {}", record.tags.id, profile.error().message()));
    return;
  }
  if (!profile->geometry.has_metadata()) {
    plan.obstacles.push_back(
        fmt::format("volume {} ({}) lies partly on a missing disk, and no other disk has these data: "
                    "bring the disk back, or delete the volume",
                    record.tags.id, profile->geometry.Describe()));
    return;
  }
  if (volume.doubt.has_value()) {
    plan.obstacles.push_back(volume.doubt->words);
    return;
  }
  // A missing disk keeps a store bound to the volume, and the store must not keep the legs from being
  // rebuilt.
  if (!lvm::IsAloneButForStores(view.group(), *record.lv).has_value() && !MayChange(volume, plan)) {
    return;
  }
  if (IsBusy(volume)) {
    plan.waiting = true;  // LVM replaces no leg while other legs are being rebuilt
    return;
  }
  if (view.not_rebuilt.contains(record.tags.id)) {
    return;  // the volumes behind it do not wait for it
  }
  auto step = ReplaceLegs(
      view, volume, profile->geometry,
      {.which = lost, .avoid = view.catalog->weak, .activate = !volume.active, .kind = RepairKind::kRebuild});
  if (!step.has_value()) {
    plan.obstacles.push_back(
        step.error().needed
            ? fmt::format("volume {} ({}) has too few legs left to be rebuilt: bring its disks back",
                          record.tags.id, profile->geometry.Describe())
            : fmt::format("volume {} cannot be rebuilt: {}; add a disk to the group, or free space",
                          record.tags.id, step.error().no_place));
  } else if (!plan.step.has_value()) {
    plan.step = *std::move(step);
  }
}

// Removes the legs that an interrupted conversion took out, once the volume can do without them: until then
// they may be the last good copy.
std::optional<RepairStep> EndTakenOut(const RepairView& view, RepairPlan& plan) {
  for (const std::string& name : view.catalog->unproven_legs) {
    plan.obstacles.push_back(fmt::format(
        "logical volume {}/{} has the name of a leg that LVM took out of a volume, but this "
        "cannot be proven: it is kept. Check what it holds, and remove it (lvremove) if it is not needed",
        view.group().name, name));
  }
  for (const TakenOut& taken : view.catalog->taken_out) {
    const auto volume = std::ranges::find_if(
        view.volumes, [&](const VolumeView& one) { return one.record->lv->name == taken.volume; });
    if (volume == view.volumes.end()) {
      continue;  // the volume was deleted: the eraser removes the leg
    }
    if (!IsDispensable(*volume->record, volume->raid)) {
      plan.obstacles.push_back(fmt::format(
          "volume {}: {}/{}, a leg that an interrupted conversion took out of it, is kept until the kernel "
          "reports all other legs present and in sync. For that the volume must be in use",
          volume->record->tags.id, view.group().name, taken.parts.front()->name));
    } else if (MayChange(*volume, plan)) {
      return RepairStep{.ids = {volume->record->tags.id}, .actions = PlanEndOf(*view.catalog, taken)};
    }
  }
  return std::nullopt;
}

// The eraser gives up deleted volumes that lie on a disk which was given up. The disk is removed from the
// group after that.
bool WaitsForTheEraser(const RepairView& view) {
  return std::ranges::any_of(view.catalog->records, [&](const Record& record) {
    return IsErasing(record) && !record.tags.thin && record.lv->partial && MayRebuild(view, record);
  });
}

// Removes the missing disks from the group once all of them are given up. LVM refuses to remove a disk while
// any logical volume, managed or not, lies there.
std::optional<RepairStep> Drop(const RepairView& view) {
  const lvm::VolumeGroup& group = view.group();
  const auto waited_for = [&](const lvm::PhysicalVolume& pv) {
    return pv.missing && !view.given_up.contains(pv.uuid);
  };
  const size_t missing = group.MissingPvs();
  if (missing == 0 || missing == group.pvs.size() || std::ranges::any_of(group.pvs, waited_for) ||
      std::ranges::any_of(group.lvs, &lvm::LogicalVolume::partial)) {
    return std::nullopt;
  }
  return RepairStep{.actions = {lvm::DropMissingPvs{group.name}}};
}

}  // namespace

std::vector<bool> UselessLegs(const RepairView& view, const VolumeView& volume) {
  std::vector<bool> out = lvm::LostLegs(view.group(), *volume.record->lv);
  for (size_t i = 0; volume.raid.has_value() && i < volume.raid->legs.size() && i < out.size(); ++i) {
    out[i] = out[i] || volume.raid->legs[i] != 'A';
  }
  return out;
}

std::set<std::string> FailedPvs(const RepairView& view, const VolumeView& volume) {
  std::set<std::string> out;
  if (!volume.raid.has_value()) {
    return out;
  }
  const std::vector<bool> failed = FailedLegs(*volume.raid);
  const auto pvs = lvm::LegPvs(view.group(), *volume.record->lv);
  for (size_t i = 0; i < failed.size() && i < pvs.size(); ++i) {
    for (const std::string& uuid : pvs[i]) {
      if (failed[i] && !view.group().LacksPv(uuid)) {
        out.insert(uuid);
      }
    }
  }
  return out;
}

bool IsDispensable(const Record& volume, const std::optional<dm::RaidStatus>& raid) {
  const std::vector<bool> lost = lvm::LostLegs(*volume.group, *volume.lv);
  return raid.has_value() && IsWhole(*raid) && raid->legs.size() == lost.size() &&
         std::ranges::find(lost, true) == lost.end();
}

bool IsBusy(const VolumeView& volume) {
  return volume.raid.has_value() && !volume.raid->action.empty() && volume.raid->action != "idle";
}

bool IsComparing(const VolumeView& volume) {
  return volume.raid.has_value() && (volume.raid->action == "check" || volume.raid->action == "repair");
}

bool HasFailedLeg(const VolumeView& volume) {
  return volume.raid.has_value() &&
         std::ranges::any_of(FailedLegs(*volume.raid), [](bool failed) { return failed; });
}

std::expected<RepairStep, LegsKept> ReplaceLegs(const RepairView& view, const VolumeView& volume,
                                                const lvm::Geometry& geometry, const LegsToReplace& legs) {
  const Record& record = *volume.record;
  const std::string& group = view.group().name;
  std::vector<bool> useless = UselessLegs(view, volume);
  for (size_t i = 0; i < legs.which.size(); ++i) {
    useless[i] = useless[i] || legs.which[i];
  }
  auto placed = PlaceRebuiltLegs(view.group(), legs.avoid, geometry, *record.lv, legs.which);
  const bool needed = !Survives(geometry, useless);
  if (needed || !placed.has_value()) {
    return std::unexpected(LegsKept{needed, placed.has_value() ? "" : placed.error().message()});
  }
  RepairStep step{.ids = {record.tags.id}, .kind = legs.kind};
  if (legs.activate) {
    step.actions.push_back(ActivateAction{group, {ActiveName(record)}});
  }
  step.actions.push_back(lvm::RepairLv{group, record.lv->name, std::move(placed->pv_arguments),
                                       legs.on == nullptr ? "" : legs.on->device});
  step.actions.push_back(VerifyLegsAction{group, record.lv->name, legs.on == nullptr ? "" : legs.on->uuid});
  return step;
}

RepairPlan PlanRepair(const RepairView& view) {
  RepairPlan plan;
  if (view.group().exported) {
    return plan;
  }
  plan.step = TakeBack(view)
                  .or_else([&] { return Resume(view); })
                  .or_else([&] { return StartAsAsked(view); })
                  .or_else([&] { return StartStopped(view); })
                  .or_else([&] { return RestartSick(view, plan); })
                  .or_else([&] { return Abandon(view, plan); })
                  .or_else([&] { return Refresh(view); })
                  .or_else([&] { return StartAgain(view, plan); });
  if (plan.step.has_value()) {
    return plan;
  }
  for (const VolumeView& volume : view.volumes) {
    if (volume.record->tags.thin) {
      continue;  // its legs are those of its store
    }
    if (volume.record->lv->partial && MayRebuild(view, *volume.record)) {
      Rebuild(view, volume, plan);
    } else if (volume.doubt.has_value() && !volume.record->lv->partial) {
      plan.obstacles.push_back(volume.doubt->words);
    }
  }
  plan.waiting = plan.waiting || WaitsForTheEraser(view);
  plan.step = std::move(plan.step)
                  .or_else([&] { return EndTakenOut(view, plan); })
                  .or_else([&] { return Drop(view); })
                  .or_else([&] { return LimitRecovery(view, plan); })
                  .or_else([&] { return PlanEvacuation(view, plan); });
  return plan;
}

}  // namespace quarry::engine
