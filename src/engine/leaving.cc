#include "engine/leaving.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/disk_health.h"
#include "engine/health.h"

namespace quarry::engine {
namespace {

// One command's worth: what is lost of the way when the power goes.
constexpr Bytes kPiece{4 * kGiB.value};
constexpr std::string_view kMovePrefix =
    "pvmove";  // of the hidden volume that pvmove leaves when it is killed

bool HasTag(const lvm::PhysicalVolume& pv, std::string_view tag) {
  return std::ranges::find(pv.tags, tag) != pv.tags.end();
}

bool TouchesPv(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& pv_uuid) {
  return std::ranges::any_of(lvm::PhysicalExtents(group, lv),
                             [&](const lvm::PhysicalRange& range) { return range.pv_uuid == pv_uuid; });
}

// Whether a move of its extents, or of those of its legs, was begun and has not ended.
bool IsBeingMoved(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  for (const lvm::Segment& segment : lv.segments) {
    for (const lvm::SegmentArea& area : segment.areas) {
      const lvm::LogicalVolume* const below = area.lv_name.empty() ? nullptr : group.FindLv(area.lv_name);
      if (area.lv_name.starts_with(kMovePrefix) || (below != nullptr && IsBeingMoved(group, *below))) {
        return true;
      }
    }
  }
  return false;
}

const Record* RecordOf(const Catalog& catalog, const lvm::LogicalVolume& lv) {
  const auto found = std::ranges::find(catalog.records, &lv, &Record::lv);
  return found == catalog.records.end() ? nullptr : &*found;
}

const MendVolume* VolumeOf(const MendView& view, const Record& record) {
  const auto found = std::ranges::find_if(
      view.volumes, [&](const MendVolume& volume) { return volume.record->lv == record.lv; });
  return found == view.volumes.end() ? nullptr : &*found;
}

std::string NameOf(const lvm::PhysicalVolume& pv) {
  return fmt::format("disk {} ({})", pv.device, pv.uuid);
}

std::vector<const lvm::LogicalVolume*> LvsOf(const std::vector<const Record*>& records) {
  std::vector<const lvm::LogicalVolume*> out;
  for (const Record* const record : records) {
    out.push_back(record->lv);
  }
  return out;
}

// What a killed move left. Of inactive volumes nothing would be copied.
std::optional<MendStep> GoOn(const MendView& view, MendPlan& plan) {
  const lvm::VolumeGroup& group = view.group();
  MendStep step{.ids = {}, .actions = {}, .kind = MendKind::kLeave, .unhurried = true};
  ActivateAction activate{group.name, {}};
  bool moving = false;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (lv.hidden || !IsBeingMoved(group, lv)) {
      continue;
    }
    if (RecordOf(*view.catalog, lv) == nullptr) {
      plan.obstacles.push_back(
          fmt::format("somebody moves logical volume {}/{}, which is not Quarry's: let pvmove finish",
                      group.name, lv.name));
      return std::nullopt;
    }
    activate.names.push_back(lv.name);
    moving = true;
  }
  if (!moving) {
    return std::nullopt;
  }
  step.actions = {std::move(activate), FinishMovesAction{group.name, false}};
  return step;
}

std::optional<MendStep> RebuildElsewhere(const MendView& view, const lvm::PhysicalVolume& pv,
                                         const MendVolume& volume, const lvm::Geometry& geometry,
                                         MendPlan& plan) {
  const Record& record = *volume.record;
  if (IsBusy(volume)) {
    plan.waiting = true;
    return std::nullopt;
  }
  const std::vector<bool> there = lvm::LegsOn(view.group(), *record.lv, pv.uuid);
  std::vector<bool> useless = UselessLegs(view, volume);
  for (size_t i = 0; i < there.size(); ++i) {
    useless[i] = useless[i] || there[i];
  }
  if (!Survives(geometry, useless)) {
    plan.obstacles.push_back(
        fmt::format("volume {} ({}) cannot do without its leg on {}: it is repaired first, or `quarryctl "
                    "evacuate` copies that leg",
                    record.tags.id, geometry.Describe(), NameOf(pv)));
    return std::nullopt;
  }
  auto placed = PlaceRebuiltLegs(view.group(), view.catalog->weak, geometry, *record.lv, there);
  if (!placed.has_value()) {
    plan.obstacles.push_back(
        fmt::format("volume {} cannot leave {}: {}", record.tags.id, NameOf(pv), placed.error().message()));
    return std::nullopt;
  }
  MendStep step{.ids = {record.tags.id}, .actions = {}, .kind = MendKind::kLeave};
  if (!volume.active) {
    step.actions.push_back(ActivateAction{view.group().name, {record.lv->name}});
  }
  step.actions.push_back(
      RepairAction{{view.group().name, record.lv->name, std::move(placed->pv_arguments), pv.device}});
  step.actions.push_back(VerifyLegsAction{view.group().name, record.lv->name, pv.uuid});
  return step;
}

Result<std::vector<lvm::ExtentMove>> PlaceOff(const lvm::VolumeGroup& group, const WeakDisks& weak,
                                              const lvm::PhysicalVolume& pv,
                                              const std::vector<const lvm::LogicalVolume*>& lvs) {
  return PlaceOnSoundDisks(
      group, weak, [&](const lvm::FreeSpace& space) { return lvm::PlaceMoves(space, group, pv.uuid, lvs); });
}

std::string HoldsStrangers(const lvm::PhysicalVolume& pv, const OnDisk& there) {
  return fmt::format("{} holds logical volumes that are not Quarry's ({}): pvmove or remove them yourself",
                     NameOf(pv), fmt::join(there.strangers, ", "));
}

MendStep Copy(const lvm::VolumeGroup& group, lvm::ExtentMove move) {
  if (!move.whole) {
    const Extents most{std::max<uint64_t>(kPiece.value / group.extent_size.value, 1)};
    move.from.front().count = std::min(most, move.from.front().count);
    move.to.front().count = std::min(most, move.to.front().count);
  }
  return {.ids = {},
          .actions = {MoveExtentsAction{{.group = group.name,
                                         .name = move.name,
                                         .from = lvm::PvRangesArgument(group, move.from_uuid, move.from),
                                         .to = lvm::PvRangesArgument(group, move.to_uuid, move.to)}},
                      VerifyLeftAction{group.name, move.from_uuid, move.from}},
          .kind = MendKind::kLeave,
          .unhurried = true};
}

// The next step for one disk.
std::optional<MendStep> Leave(const MendView& view, const lvm::PhysicalVolume& pv, MendPlan& plan) {
  const lvm::VolumeGroup& group = view.group();
  const OnDisk there = WhatLiesOn(*view.catalog, pv);
  const bool rebuild = HasTag(pv, lvm::kReplacingTag);
  std::vector<const Record*> to_copy;
  std::optional<MendStep> step;
  for (const Record* const record : there.records) {
    const MendVolume* const volume = VolumeOf(view, *record);
    const auto profile = Profile::FromCanonical(record->tags.profile);
    if (volume == nullptr) {
      plan.waiting = true;  // half made, or being erased: that ends by itself
    } else if (!profile.has_value()) {
      plan.obstacles.push_back(fmt::format("volume {}: {}", record->tags.id, profile.error().message()));
    } else if (rebuild && profile->geometry.has_metadata()) {
      if (auto one = RebuildElsewhere(view, pv, *volume, profile->geometry, plan); !step.has_value()) {
        step = std::move(one);
      }
    } else {
      to_copy.push_back(record);
    }
  }
  if (!there.strangers.empty()) {
    plan.obstacles.push_back(HoldsStrangers(pv, there));
  }
  if (step.has_value()) {
    return step;
  }
  if (!to_copy.empty()) {
    const auto moves = PlaceOff(group, view.catalog->weak, pv, LvsOf(to_copy));
    if (!moves.has_value()) {
      plan.obstacles.push_back(fmt::format("{} cannot be emptied: {}; add a disk to the group, or make room",
                                           NameOf(pv), moves.error().message()));
      return std::nullopt;
    }
    return Copy(group, moves->front());
  }
  if (there.records.empty() && there.strangers.empty() && group.pvs.size() > 1) {
    return MendStep{.ids = {}, .actions = {RemovePvAction{group.name, pv.device}}, .kind = MendKind::kLeave};
  }
  return std::nullopt;
}

}  // namespace

bool IsLeaving(const lvm::PhysicalVolume& pv) {
  return HasTag(pv, lvm::kLeavingTag) || HasTag(pv, lvm::kReplacingTag);
}

Extents UsedOn(const lvm::PhysicalVolume& pv) {
  Extents used = pv.extent_count;
  for (const lvm::ExtentRange& free : pv.free) {
    used = used - free.count;
  }
  return used;
}

OnDisk WhatLiesOn(const Catalog& catalog, const lvm::PhysicalVolume& pv) {
  OnDisk out;
  for (const lvm::LogicalVolume& lv : catalog.group->lvs) {
    if (lv.hidden || !TouchesPv(*catalog.group, lv, pv.uuid)) {
      continue;
    }
    if (const Record* const record = RecordOf(catalog, lv); record != nullptr) {
      out.records.push_back(record);
    } else {
      out.strangers.push_back(lv.name);
    }
  }
  if (out.records.empty() && out.strangers.empty() && UsedOn(pv) != Extents{}) {
    out.strangers.emplace_back("hidden ones that belong to no volume");
  }
  return out;
}

Status CanLeave(const Catalog& catalog, const lvm::PhysicalVolume& pv) {
  const lvm::VolumeGroup& group = *catalog.group;
  if (group.pvs.size() < 2) {
    return Error(Code::kPrecondition,
                 fmt::format("{} is the only one of volume group {}", NameOf(pv), group.name));
  }
  const OnDisk there = WhatLiesOn(catalog, pv);
  if (!there.strangers.empty()) {
    return Error(Code::kPrecondition, HoldsStrangers(pv, there));
  }
  const auto moves = PlaceOff(group, catalog.weak, pv, LvsOf(there.records));
  return moves.has_value() ? Ok() : Status(Error(moves.error()).Context(NameOf(pv) + " cannot be emptied"));
}

void PlanLeaving(const MendView& view, MendPlan& plan) {
  if (!view.may_empty || std::ranges::none_of(view.group().pvs, IsLeaving)) {
    return;
  }
  if (view.group().MissingPvs() > 0) {
    plan.obstacles.emplace_back("a disk is to be emptied, which LVM refuses while another is missing");
    return;
  }
  plan.step = GoOn(view, plan);
  if (plan.step.has_value() || !plan.obstacles.empty()) {
    return;
  }
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    if (IsLeaving(pv) && !plan.step.has_value()) {
      plan.step = Leave(view, pv, plan);
    }
  }
}

}  // namespace quarry::engine
