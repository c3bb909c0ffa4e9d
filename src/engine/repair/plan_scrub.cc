#include "engine/repair/plan_scrub.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/model/volume_health.h"
#include "engine/plan/plan_cow.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

constexpr uint64_t kSector = 512;

// When the legs were last known to agree. The legs of a new volume were synchronized, or were all zeroes.
std::chrono::sys_seconds LastCompared(const Record& record) {
  const std::chrono::sys_seconds made{std::chrono::seconds(record.lv->created)};
  const auto outcome = ReadScrub(record.tags.scrubbed);
  return outcome.has_value() ? std::max(made, outcome->ended) : made;
}

// Records the result of a finished scrub.
RepairStep RecordStep(const VolumeView& volume, bool repaired, std::chrono::sys_seconds now) {
  const Record& record = *volume.record;
  const Bytes mismatched{volume.raid->mismatches * kSector};
  const ScrubOutcome outcome{now, mismatched};  // 0 after a repair
  // The parts of a store have no tags of their own that could be changed: those of the store's pool count.
  const lvm::LogicalVolume* const pool = lvm::PoolOfPart(*record.group, *record.lv);
  const auto parts = pool == nullptr ? std::nullopt : lvm::PartsOfPool(*record.group, *pool);
  const bool is_metadata = parts.has_value() && parts->metadata == record.lv;
  const auto tag = is_metadata ? &lvm::ScrubbedMetadataTag : &lvm::ScrubbedTag;
  lvm::ChangeTags retag{record.group->name, ActiveName(record), {tag(ScrubText(outcome))}, {}};
  if (!record.tags.scrubbed.empty()) {
    retag.remove = {tag(record.tags.scrubbed)};
  }
  return {.ids = {record.tags.id},
          .actions = {std::move(retag)},
          .kind = RepairKind::kRecordScrub,
          .repairs = repaired,
          .mismatched = mismatched};
}

}  // namespace

std::string WhyNoScrub(const RepairView& view, const VolumeView& volume) {
  if (!HasRedundancy(*volume.record->lv)) {
    return "it has no second leg to compare";
  }
  if (view.group().MissingPvs() > 0) {
    return "a disk of its volume group is missing";
  }
  if (std::ranges::any_of(view.group().pvs, IsEvacuating)) {
    return "a disk of its volume group is being evacuated";
  }
  if (volume.suspended || volume.on_lost_disk ||
      std::ranges::any_of(UselessLegs(view, volume), [](bool useless) { return useless; })) {
    return "not all of its legs are present and in sync";
  }
  if (HasSnapshot(view.group(), *volume.record->lv)) {
    return "a snapshot in LVM's sense lies on it, as while it is copied in use";
  }
  if (IsBusy(volume)) {
    return fmt::format("the kernel is busy with another operation on it ({})", volume.raid->action);
  }
  return "";
}

void Scrubs::Want(const std::string& id, bool repair) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(wanted_, id, &Wish::id);
  if (found == wanted_.end()) {
    wanted_.push_back({id, repair});
  } else {
    found->repair = found->repair || repair;
  }
}

bool Scrubs::IsPending(const std::string& id) const {
  const MutexLock lock(mutex_);
  return running_.contains(id) || std::ranges::find(wanted_, id, &Wish::id) != wanted_.end();
}

bool Scrubs::IsRunning(const std::string& id) const {
  const MutexLock lock(mutex_);
  return running_.contains(id);
}

void Scrubs::Look(const RepairView& view, std::vector<std::string>& lost) {
  const MutexLock lock(mutex_);
  for (const VolumeView& volume : view.volumes) {
    const Record& record = *volume.record;
    const bool known = running_.contains(record.tags.id);
    if (!known && !IsComparing(volume)) {
      continue;
    }
    Running& running =
        running_[record.tags.id];  // also a scrub that another process or an earlier quarryd began
    if (IsComparing(volume)) {
      running.repair = volume.raid->action == "repair";
    }
    if (!running.instance.has_value()) {
      running.instance = volume.instance;
      running.segments = record.lv->segments;
    }
    // A leg failed, or the volume was deactivated, got other legs, or grew.
    const bool broken_off = !volume.raid.has_value() || (IsBusy(volume) && !IsComparing(volume)) ||
                            volume.raid->legs.find_first_not_of('A') != std::string::npos ||
                            running.instance != volume.instance || running.segments != record.lv->segments;
    if (broken_off) {
      lost.push_back(
          fmt::format("{}: a leg failed, or it was deactivated, grown or given other legs", InWords(record)));
      running_.erase(record.tags.id);
    }
  }
}

std::optional<RepairStep> Scrubs::Next(const RepairView& view, const ScrubTimes& times,
                                       std::vector<std::string>& lost) {
  const MutexLock lock(mutex_);
  if (std::ranges::any_of(view.volumes, IsComparing)) {
    return std::nullopt;
  }
  for (const VolumeView& volume : view.volumes) {
    const auto running = running_.find(volume.record->tags.id);
    if (running != running_.end()) {
      return RecordStep(volume, running->second.repair, times.now);
    }
  }
  return Begin(view, times, lost);
}

std::optional<RepairStep> Scrubs::Begin(const RepairView& view, const ScrubTimes& times,
                                        std::vector<std::string>& lost) {
  const VolumeView* next = nullptr;
  bool repair = false;
  for (auto wish = wanted_.begin(); wish != wanted_.end() && next == nullptr;) {
    const auto volume =
        std::ranges::find(view.volumes, wish->id, [](const VolumeView& one) { return one.record->tags.id; });
    if (volume == view.volumes.end() || IsBusy(*volume)) {
      ++wish;  // another pool's, deleted, or its legs are being rebuilt: its turn comes later
      continue;
    }
    if (const std::string why = WhyNoScrub(view, *volume); !why.empty()) {
      lost.push_back(fmt::format("{} cannot be scrubbed: {}", InWords(*volume->record), why));
      wish = wanted_.erase(wish);
      continue;
    }
    next = &*volume;
    repair = wish->repair;
  }
  if (next == nullptr && times.interval.count() > 0 && times.may_begin) {
    for (const VolumeView& volume : view.volumes) {
      const bool due = LastCompared(*volume.record) + times.interval <= times.now;
      if (due && volume.scrub_due && WhyNoScrub(view, volume).empty() &&
          (next == nullptr || LastCompared(*volume.record) < LastCompared(*next->record))) {
        next = &volume;
      }
    }
  }
  if (next == nullptr) {
    return std::nullopt;
  }
  const Record& record = *next->record;
  RepairStep step{.ids = {record.tags.id}, .kind = RepairKind::kBeginScrub, .repairs = repair};
  if (!next->raid.has_value()) {
    step.actions.push_back(ActivateAction{record.group->name, {ActiveName(record)}});
  }
  step.actions.push_back(ScrubAction{record.group->name, record.lv->name, record.DmUuid(), repair});
  return step;
}

void Scrubs::Note(const RepairStep& step, bool executed) {
  const MutexLock lock(mutex_);
  const std::string& id = step.ids.front();
  if (step.kind == RepairKind::kBeginScrub) {
    std::erase_if(wanted_, [&](const Wish& wish) { return wish.id == id; });
    if (executed) {
      running_[id] = {.repair = step.repairs};
    }
  } else if (executed) {
    running_.erase(id);
  }
}

}  // namespace quarry::engine
