#include "engine/repair/plan_evacuation.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

// The amount that one command copies. At most this is copied again after a power failure.
constexpr Bytes kPiece{4 * kGiB.value};

bool HasTag(const lvm::PhysicalVolume& pv, std::string_view tag) {
  return std::ranges::find(pv.tags, tag) != pv.tags.end();
}

bool TouchesPv(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& pv_uuid) {
  return std::ranges::any_of(lvm::PhysicalExtents(group, lv),
                             [&](const lvm::PhysicalRange& range) { return range.pv_uuid == pv_uuid; });
}

// Whether extents of the volume, or of its legs, lie on this pvmove.
bool LiesOn(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, std::string_view pvmove) {
  const auto is_on = [&](const lvm::LogicalVolume& part) {
    return std::ranges::any_of(part.segments, [&](const lvm::Segment& segment) {
      return std::ranges::any_of(segment.areas,
                                 [&](const lvm::SegmentArea& area) { return area.lv_name == pvmove; });
    });
  };
  return std::ranges::any_of(group.lvs, [&](const lvm::LogicalVolume& part) {
    return (part.name == lv.name || (part.hidden && part.name.starts_with(lv.name + "_"))) && is_on(part);
  });
}

const Record* RecordOf(const Catalog& catalog, const lvm::LogicalVolume& lv) {
  const auto found = std::ranges::find(catalog.records, &lv, &Record::lv);
  return found == catalog.records.end() ? nullptr : &*found;
}

// The parts of the thin store that this LV is; empty: it is none.
std::vector<const Record*> PartsOf(const Catalog& catalog, const lvm::LogicalVolume& lv) {
  std::vector<const Record*> out;
  const auto store = std::ranges::find(catalog.stores, &lv, &Store::lv);
  for (const Record& part : catalog.parts) {
    if (store != catalog.stores.end() && (part.lv == store->data || part.lv == store->metadata)) {
      out.push_back(&part);
    }
  }
  return out;
}

bool IsTakenOut(const Catalog& catalog, const lvm::LogicalVolume& lv) {
  return std::ranges::any_of(catalog.taken_out, [&](const TakenOut& taken) {
    return std::ranges::find(taken.parts, &lv) != taken.parts.end();
  });
}

const VolumeView* VolumeOf(const RepairView& view, const Record& record) {
  const auto found = std::ranges::find_if(
      view.volumes, [&](const VolumeView& volume) { return volume.record->lv == record.lv; });
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

std::optional<RepairStep> RebuildElsewhere(const RepairView& view, const lvm::PhysicalVolume& pv,
                                           const VolumeView& volume, const lvm::Geometry& geometry,
                                           RepairPlan& plan) {
  const Record& record = *volume.record;
  if (IsBusy(volume)) {
    plan.waiting = true;
    return std::nullopt;
  }
  auto step = ReplaceLegs(view, volume, geometry,
                          {.which = lvm::LegsOn(view.group(), *record.lv, pv.uuid),
                           .on = &pv,
                           .avoid = view.catalog->weak,
                           .activate = !volume.active,
                           .kind = RepairKind::kEvacuate});
  if (step.has_value()) {
    return *std::move(step);
  }
  plan.obstacles.push_back(
      step.error().needed
          ? fmt::format("volume {} ({}) cannot lose its leg on {} now: the volume must be repaired first, or "
                        "run `quarryctl evacuate` to copy that leg",
                        record.tags.id, geometry.Describe(), NameOf(pv))
          : fmt::format("volume {} cannot be moved off {}: {}", record.tags.id, NameOf(pv),
                        step.error().no_place));
  return std::nullopt;
}

Result<std::vector<lvm::ExtentMove>> PlaceOff(const lvm::VolumeGroup& group, const UnhealthyDisks& weak,
                                              const lvm::PhysicalVolume& pv,
                                              const std::vector<const lvm::LogicalVolume*>& lvs) {
  return PlaceOnSoundDisks(
      group, weak, [&](const lvm::FreeSpace& space) { return lvm::PlaceMoves(space, group, pv.uuid, lvs); });
}

std::string HoldsStrangers(const lvm::PhysicalVolume& pv, const OnDisk& there) {
  return fmt::format("{} holds unmanaged logical volumes ({}): move (pvmove) or remove them yourself",
                     NameOf(pv), fmt::join(there.strangers, ", "));
}

RepairStep Copy(const lvm::VolumeGroup& group, lvm::ExtentMove move) {
  if (!move.whole) {
    const Extents most{std::max<uint64_t>(kPiece.value / group.extent_size.value, 1)};
    move.from.front().count = std::min(most, move.from.front().count);
    move.to.front().count = std::min(most, move.to.front().count);
  }
  return {.actions = {lvm::MoveExtents{.group = group.name,
                                       .name = move.name,
                                       .from = lvm::PvRangesArgument(group, move.from_uuid, move.from),
                                       .to = lvm::PvRangesArgument(group, move.to_uuid, move.to)},
                      VerifyLeftAction{group.name, move.from_uuid, move.from}},
          .kind = RepairKind::kEvacuate,
          .unhurried = true};
}

// The next step for one disk.
std::optional<RepairStep> Leave(const RepairView& view, const lvm::PhysicalVolume& pv, RepairPlan& plan) {
  const lvm::VolumeGroup& group = view.group();
  const auto begun = OwnMoveOff(*view.catalog, pv);
  if (!begun.has_value()) {
    plan.obstacles.push_back(begun.error().message());
    return std::nullopt;
  }
  if (begun->has_value()) {
    RepairStep step = Copy(group, **begun);
    // LVM copies nothing of an inactive volume. A store is started under the turn (plan_repair.cc), not here.
    const lvm::LogicalVolume* const lv = group.FindLv((*begun)->name);
    if (lv == nullptr || lvm::PoolOfPart(group, *lv) == nullptr) {
      step.actions.insert(step.actions.begin(), ActivateAction{group.name, {(*begun)->name}});
    }
    return step;
  }
  const OnDisk there = WhatLiesOn(*view.catalog, pv);
  const bool rebuild = HasTag(pv, lvm::kReplacingTag);
  std::vector<const Record*> to_copy;
  std::optional<RepairStep> step;
  for (const Record* const record : there.records) {
    const VolumeView* const volume = VolumeOf(view, *record);
    const Result<Profile>& profile = record->profile;
    if (volume == nullptr) {
      plan.waiting = true;  // it is unfinished or being erased: no step of the evacuation is needed
    } else if (!profile.has_value()) {
      plan.obstacles.push_back(fmt::format("volume {}: {}", record->tags.id, profile.error().message()));
    } else if (const auto alone = CheckAlone(*record); !alone.has_value()) {
      plan.obstacles.push_back(alone.error().message());
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
      plan.obstacles.push_back(
          fmt::format("{} cannot be evacuated: {}; add a disk to the group, or free space", NameOf(pv),
                      moves.error().message()));
      return std::nullopt;
    }
    return Copy(group, moves->front());
  }
  if (there.records.empty() && there.strangers.empty() && there.taken_out.empty() && group.pvs.size() > 1) {
    return RepairStep{.actions = {lvm::RemovePv{group.name, pv.device}}, .kind = RepairKind::kEvacuate};
  }
  return std::nullopt;
}

}  // namespace

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
    if (const auto parts = PartsOf(catalog, lv); !parts.empty()) {
      std::ranges::copy_if(parts, std::back_inserter(out.records), [&](const Record* const part) {
        return TouchesPv(*catalog.group, *part->lv, pv.uuid);
      });
    } else if (const Record* const record = RecordOf(catalog, lv); record != nullptr) {
      out.records.push_back(record);
    } else if (IsTakenOut(catalog, lv)) {
      out.taken_out.push_back(lv.name);
    } else {
      out.strangers.push_back(lv.name);
    }
  }
  if (out.records.empty() && out.strangers.empty() && out.taken_out.empty() && UsedOn(pv) != Extents{}) {
    out.strangers.emplace_back("hidden logical volumes that belong to no volume");
  }
  return out;
}

Result<std::optional<lvm::ExtentMove>> OwnMoveOff(const Catalog& catalog, const lvm::PhysicalVolume& pv) {
  const lvm::VolumeGroup& group = *catalog.group;
  const auto pvmove = std::ranges::find_if(group.lvs, [&](const lvm::LogicalVolume& lv) {
    return lvm::IsPvmove(lv) && !pv.device.empty() && lv.leaves == pv.device;
  });
  if (pvmove == group.lvs.end()) {
    return std::optional<lvm::ExtentMove>();
  }
  lvm::ExtentMove move{.from_uuid = pv.uuid, .whole = true};  // it goes on as it was begun
  std::vector<std::string> strangers;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (lv.hidden || !LiesOn(group, lv, pvmove->name)) {
      continue;
    }
    std::vector<std::string> moved;
    for (const Record* const part : PartsOf(catalog, lv)) {
      if (LiesOn(group, *part->lv, pvmove->name)) {
        moved.push_back(part->lv->name);
      }
    }
    if (RecordOf(catalog, lv) != nullptr) {
      moved.push_back(lv.name);
    }
    if (moved.size() != 1 || !move.name.empty()) {
      strangers.push_back(lv.name);
    } else {
      move.name = moved.front();
    }
  }
  for (const lvm::Segment& segment : pvmove->segments) {
    if (segment.type == "mirror" && segment.areas.size() == 2 && segment.areas[0].pv_uuid == pv.uuid &&
        !segment.areas[1].pv_uuid.empty()) {
      move.from.push_back(segment.areas[0].range);
      move.to_uuid = segment.areas[1].pv_uuid;
      move.to.push_back(segment.areas[1].range);
    }
  }
  if (!IsEvacuating(pv) || !strangers.empty() || move.name.empty() || move.from.empty()) {
    return Error(
        Code::kUnavailable,
        fmt::format("another process is moving extents off {} ({}): wait until its pvmove has finished",
                    NameOf(pv),
                    strangers.empty() ? pvmove->name : fmt::format("{}", fmt::join(strangers, ", "))));
  }
  return std::optional(std::move(move));
}

Status CanLeave(const Catalog& catalog, const lvm::PhysicalVolume& pv) {
  const lvm::VolumeGroup& group = *catalog.group;
  if (group.pvs.size() < 2) {
    return Error(Code::kPrecondition,
                 fmt::format("{} is the only disk of volume group {}", NameOf(pv), group.name));
  }
  if (!group.extendable) {
    return Error(
        Code::kPrecondition,
        fmt::format(
            "volume group {0} does not allow adding or removing disks (vgchange --resizeable n): allow it "
            "with `vgchange --resizeable y {0}`",
            group.name));
  }
  const OnDisk there = WhatLiesOn(catalog, pv);
  if (!there.strangers.empty()) {
    return Error(Code::kPrecondition, HoldsStrangers(pv, there));
  }
  for (const Record* const record : there.records) {
    const auto alone = CheckAlone(*record);
    // Quarry's own move off a disk that is already to be vacated is no obstacle to vacating it the other way
    // (evacuate or replace).
    if (!alone.has_value() && !(IsEvacuating(pv) && alone.error().code() == Code::kUnavailable)) {
      return Error(alone.error()).Context(NameOf(pv) + " cannot be evacuated");
    }
  }
  const auto moves = PlaceOff(group, catalog.weak, pv, LvsOf(there.records));
  return moves.has_value() ? Ok() : Status(Error(moves.error()).Context(NameOf(pv) + " cannot be evacuated"));
}

std::optional<RepairStep> PlanEvacuation(const RepairView& view, RepairPlan& plan) {
  if (!view.may_evacuate || std::ranges::none_of(view.group().pvs, IsEvacuating)) {
    return std::nullopt;
  }
  if (view.group().MissingPvs() > 0) {
    plan.obstacles.emplace_back(
        "a disk is to be vacated, but LVM moves nothing while another disk of the group is missing");
    return std::nullopt;
  }
  std::optional<RepairStep> step;
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    if (IsEvacuating(pv) && !step.has_value()) {
      step = Leave(view, pv, plan);
    }
  }
  return step;
}

}  // namespace quarry::engine
