#include "engine/repair/plan_repair.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/alone.h"
#include "engine/model/failing_disks.h"
#include "engine/model/taken_out.h"
#include "engine/model/volume_health.h"
#include "engine/plan/plan_taken_out.h"
#include "engine/repair/plan_evacuation.h"

namespace quarry::engine {
namespace {

// Whether anything may be done to a volume for which something is to be done.
bool MayChange(const VolumeView& volume, RepairPlan& plan) {
  auto alone = CheckAlone(*volume.record);
  if (!alone.has_value()) {
    plan.obstacles.push_back(alone.error().message());
  }
  return alone.has_value();
}

// A disk that has returned after the group was changed without it: LVM counts it as missing until it is told.
// LVM may refuse one; the others are taken back, and everything else goes on.
std::optional<RepairStep> TakeBack(const RepairView& view) {
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    if (pv.missing && !pv.device.empty() && !view.refused.contains(pv.uuid)) {
      return RepairStep{.ids = {},
                        .actions = {RestorePvAction{view.group().name, pv.device}},
                        .kind = RepairKind::kTakeBack,
                        .disk = pv.uuid};
    }
  }
  return std::nullopt;
}

// What a killed command left suspended: any I/O to it waits. Activation loads what the metadata say.
std::optional<RepairStep> Resume(const RepairView& view) {
  for (const VolumeView& volume : view.volumes) {
    if (volume.suspended) {
      return RepairStep{{volume.record->tags.id},
                        {ActivateAction{view.group().name, {volume.record->lv->name}}}};
    }
  }
  return std::nullopt;
}

bool HasStopped(const VolumeView& volume) {
  const auto profile = Profile::FromCanonical(volume.record->tags.profile);
  return volume.raid.has_value() && profile.has_value() &&
         engine::HasStopped(profile->geometry, *volume.raid);
}

// Nothing but a person's word will do; once it is active its legs have been told which of them count.
std::optional<RepairStep> StartAsAsked(const RepairView& view) {
  for (const VolumeView& volume : view.volumes) {
    if (volume.accepted && !volume.active && volume.doubt.has_value() && volume.doubt->may_override) {
      const Record& record = *volume.record;
      std::vector<std::string> old;
      if (record.tags.overruled > 0) {
        old.push_back(lvm::OverruledTag(record.tags.overruled));
      }
      // First, so that no leg that is left out passes for current should those that are taken be gone one
      // day.
      return RepairStep{
          {record.tags.id},
          {RetagAction{view.group().name, record.lv->name, {lvm::OverruledTag(volume.doubt->overruled)}, old},
           ActivateAction{.group = view.group().name, .names = {record.lv->name}, .accept_older = true}}};
    }
  }
  return std::nullopt;
}

// Its disks are back, all of them; whoever had it open when it stopped gets errors, and nothing of what he
// wrote since was kept.
std::optional<RepairStep> StartAgain(const RepairView& view, RepairPlan& plan) {
  for (const VolumeView& volume : view.volumes) {
    const Record& record = *volume.record;
    if (!volume.active || record.lv->partial || !HasStopped(volume)) {
      continue;
    }
    if (volume.open) {
      plan.waiting = true;
      plan.obstacles.push_back(fmt::format(
          "volume {} has stopped because too many of its disks were gone at once. They are back: it "
          "is started again as soon as nobody has it open, so unmount or unpublish it",
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

// The PVs that a volume's legs are to leave: those of legs that it is of no use to take back, because that
// has been tried or because the disk is failing, and those on which other legs had to be given up so.
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

// A disk that answers, and not as it should: what its legs had is made anew on others, from the other legs.
// Where that is not possible a leg that failed is tried again, ever more rarely.
std::optional<RepairStep> Abandon(const RepairView& view, RepairPlan& plan) {
  if (!view.may_replace_legs || view.group().MissingPvs() > 0) {
    return std::nullopt;  // LVM exchanges legs that are there in a whole group only
  }
  for (const VolumeView& volume : view.volumes) {
    const Record& record = *volume.record;
    const auto profile = Profile::FromCanonical(record.tags.profile);
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
      const std::vector<bool> there = lvm::LegsOn(view.group(), *record.lv, uuid);
      std::vector<bool> useless = UselessLegs(view, volume);
      for (size_t i = 0; i < there.size(); ++i) {
        useless[i] = useless[i] || there[i];
      }
      UnhealthyDisks weak = view.catalog->weak;
      weak.failing.emplace(uuid, "legs on it fail");
      auto placed = PlaceRebuiltLegs(view.group(), weak, profile->geometry, *record.lv, there);
      if (!placed.has_value() || !Survives(profile->geometry, useless)) {
        plan.obstacles.push_back(fmt::format(
            "volume {}: its leg on {}, where legs fail again and again, is not made anew: {}", record.tags.id,
            pv.device,
            placed.has_value() ? "its other legs do not suffice now"
                               : placed.error().message() + "; add a disk to the group, or make room"));
        continue;
      }
      RepairStep step{.ids = {record.tags.id}, .actions = {}, .kind = RepairKind::kReplaceLeg};
      if (!volume.active && !volume.raid.has_value()) {
        step.actions.push_back(ActivateAction{view.group().name, {record.lv->name}});
      }
      step.actions.push_back(
          RepairAction{{view.group().name, record.lv->name, std::move(placed->pv_arguments), pv.device}});
      step.actions.push_back(VerifyLegsAction{view.group().name, record.lv->name, uuid});
      return step;
    }
  }
  return std::nullopt;
}

// LVM refuses to refresh what has a part on a missing disk.
std::optional<RepairStep> Refresh(const RepairView& view) {
  RepairStep step;
  std::vector<std::string> names;
  for (const VolumeView& volume : view.volumes) {
    if (volume.active && !volume.record->lv->partial && volume.refresh_due && !HasStopped(volume) &&
        !volume.doubt.has_value() && (volume.on_lost_disk || HasFailedLeg(volume))) {
      step.ids.push_back(volume.record->tags.id);
      names.push_back(volume.record->lv->name);
    }
  }
  if (names.empty()) {
    return std::nullopt;
  }
  step.actions = {RefreshAction{view.group().name, std::move(names)}};
  return step;
}

// LVM keeps the rate with the volume, so that it holds for every sync to come.
std::optional<RepairStep> LimitRecovery(const RepairView& view, RepairPlan& plan) {
  if (!view.rebuild_rate.has_value() || view.group().MissingPvs() > 0) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const VolumeView& volume : view.volumes) {
    const lvm::LogicalVolume& lv = *volume.record->lv;
    // A comparison would begin anew.
    if (!IsComparing(volume) && HasRedundancy(lv) &&
        lv.segments.front().max_recovery_rate != *view.rebuild_rate && MayChange(volume, plan)) {
      names.push_back(lv.name);
    }
  }
  if (names.empty()) {
    return std::nullopt;
  }
  return RepairStep{.ids = {},
                    .actions = {LimitRecoveryAction{view.group().name, std::move(names), *view.rebuild_rate}},
                    .kind = RepairKind::kLimit};
}

// Whether all missing disks that it lies on have been given up.
bool MayRebuild(const RepairView& view, const Record& record) {
  for (const auto& pvs : lvm::LegPvs(view.group(), *record.lv)) {
    for (const std::string& uuid : pvs) {
      if (view.group().LacksPv(uuid) && !view.given_up.contains(uuid)) {
        return false;
      }
    }
  }
  return true;
}

void Rebuild(const RepairView& view, const VolumeView& volume, RepairPlan& plan) {
  const Record& record = *volume.record;
  const auto profile = Profile::FromCanonical(record.tags.profile);
  if (!profile.has_value()) {
    plan.obstacles.push_back(fmt::format("volume {}: {}", record.tags.id, profile.error().message()));
    return;
  }
  if (!profile->geometry.has_metadata()) {
    plan.obstacles.push_back(
        fmt::format("volume {} ({}) lies in part on a disk that is gone, and nothing else has these data: "
                    "bring the disk back, or delete the volume",
                    record.tags.id, profile->geometry.Describe()));
    return;
  }
  if (volume.doubt.has_value()) {
    plan.obstacles.push_back(volume.doubt->words);
    return;
  }
  if (!MayChange(volume, plan)) {
    return;
  }
  if (IsBusy(volume)) {
    plan.waiting = true;  // LVM exchanges no leg while others are being filled
    return;
  }
  if (!Survives(profile->geometry, UselessLegs(view, volume))) {
    plan.obstacles.push_back(
        fmt::format("volume {} ({}) has too few legs left to be rebuilt: bring its disks back",
                    record.tags.id, profile->geometry.Describe()));
    return;
  }
  auto placed = PlaceRebuiltLegs(view.group(), view.catalog->weak, profile->geometry, *record.lv,
                                 lvm::LostLegs(view.group(), *record.lv));
  if (!placed.has_value()) {
    plan.obstacles.push_back(
        fmt::format("volume {} cannot be rebuilt: {}; add a disk to the group, or make room", record.tags.id,
                    placed.error().message()));
    return;
  }
  if (plan.step.has_value()) {
    return;
  }
  plan.step = RepairStep{{record.tags.id}, {}};
  if (!volume.active) {
    plan.step->actions.push_back(ActivateAction{view.group().name, {record.lv->name}});
  }
  plan.step->actions.push_back(
      RepairAction{{view.group().name, record.lv->name, std::move(placed->pv_arguments)}});
  plan.step->actions.push_back(VerifyLegsAction{view.group().name, record.lv->name});
}

// What a conversion that was cut off left goes only once it is of no use any more: until then it may be the
// last good copy.
std::optional<RepairStep> EndTakenOut(const RepairView& view, RepairPlan& plan) {
  for (const std::string& name : view.catalog->unproven_legs) {
    plan.obstacles.push_back(fmt::format(
        "logical volume {}/{} is called like a leg that LVM took out of a volume, but that cannot be proven: "
        "it is kept. Look what it is, and remove it (lvremove) if nobody needs it",
        view.group().name, name));
  }
  for (const TakenOut& taken : view.catalog->taken_out) {
    const auto volume = std::ranges::find_if(
        view.volumes, [&](const VolumeView& one) { return one.record->lv->name == taken.volume; });
    if (volume == view.volumes.end()) {
      continue;  // it was deleted: the eraser's business
    }
    if (!IsDispensable(*volume->record, volume->raid)) {
      plan.obstacles.push_back(fmt::format(
          "volume {}: {}/{}, which a conversion that was cut off took out of it, is kept until the kernel "
          "says that all other legs are there and in sync, for which the volume must be in use",
          volume->record->tags.id, view.group().name, taken.parts.front()->name));
    } else if (MayChange(*volume, plan)) {
      return RepairStep{.ids = {volume->record->tags.id}, .actions = PlanEndOf(*view.catalog, taken)};
    }
  }
  return std::nullopt;
}

// The eraser gives up what was deleted and lies on a disk that was given up; the disk goes after that.
bool WaitsForTheEraser(const RepairView& view) {
  return std::ranges::any_of(view.catalog->records, [&](const Record& record) {
    return record.tags.state == lvm::VolumeState::kErasing && record.lv->partial && MayRebuild(view, record);
  });
}

// LVM refuses as long as anything lies there, whosever it is.
bool MayDrop(const RepairView& view) {
  size_t given_up = 0;
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    if (pv.missing && !view.given_up.contains(pv.uuid)) {
      return false;
    }
    given_up += pv.missing ? 1 : 0;
  }
  return given_up > 0 && given_up < view.group().pvs.size() &&
         std::ranges::none_of(view.group().lvs, &lvm::LogicalVolume::partial);
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

RepairPlan PlanRepair(const RepairView& view) {
  RepairPlan plan;
  if (view.group().exported) {
    return plan;
  }
  for (const auto& next : {TakeBack, Resume, StartAsAsked}) {
    if (plan.step = next(view); plan.step.has_value()) {
      return plan;
    }
  }
  if (plan.step = Abandon(view, plan); plan.step.has_value()) {
    return plan;
  }
  if (plan.step = Refresh(view); plan.step.has_value()) {
    return plan;
  }
  if (plan.step = StartAgain(view, plan); plan.step.has_value()) {
    return plan;
  }
  for (const VolumeView& volume : view.volumes) {
    if (volume.record->lv->partial && MayRebuild(view, *volume.record)) {
      Rebuild(view, volume, plan);
    } else if (volume.doubt.has_value() && !volume.record->lv->partial) {
      plan.obstacles.push_back(volume.doubt->words);
    }
  }
  if (!plan.step.has_value()) {
    plan.step = EndTakenOut(view, plan);
  }
  plan.waiting = plan.waiting || WaitsForTheEraser(view);
  if (!plan.step.has_value() && MayDrop(view)) {
    plan.step = RepairStep{{}, {DropMissingPvsAction{view.group().name}}};
  }
  if (!plan.step.has_value()) {
    plan.step = LimitRecovery(view, plan);
  }
  if (!plan.step.has_value()) {
    PlanEvacuation(view, plan);
  }
  return plan;
}

}  // namespace quarry::engine
