#include "engine/repair/repair_loop.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "engine/model/config.h"
#include "engine/plan/stop_store.h"
#include "engine/repair/observe.h"
#include "lvm/thin_pool.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using Step = RetryKey::Step;

// LVM needs seconds for the longest of these steps. Only a disk that does not answer takes longer.
constexpr milliseconds kStepLimit{300'000};
// LVM checks the metadata of a store that it starts, which takes as long as they have mappings.
constexpr std::chrono::minutes kStoreLimit{60};
// First delay before a leg is taken back again. The delay doubles each time its disk fails at once.
constexpr milliseconds kFirstRefresh{30'000};
constexpr milliseconds kFirstRetry{10'000};
// Interval of looks while legs are being rebuilt: the kernel announces the end, but not that a rebuild waits
// for another one.
constexpr milliseconds kWhileWaiting{2'000};
// After so many failed attempts to take a returned disk back LVM counts as refusing it.
constexpr int kAttemptsToRefuse = 3;
// How long the pool may take to be read: an administrator may wait for the rounds of all pools.
constexpr milliseconds kPatience{10'000};
// Limit of one round. A plan that does not end is a bug; the next round continues.
constexpr int kMostSteps = 100;

LockKey LockKeyOf(const Catalog& catalog, const std::string& id) {
  // Not ById, which passes over inline volumes.
  const auto record = std::ranges::find(catalog.records, id, [](const Record& r) { return r.tags.id; });
  return record != catalog.records.end() ? LockKeyOf(*record) : LockKey::Volume(id);
}

bool IsScrub(const RepairStep& step) {
  return step.kind == RepairKind::kBeginScrub || step.kind == RepairKind::kRecordScrub;
}

// Whether `now` is within `hours` in the node's time zone.
bool IsHourOf(const EngineConfig::Hours& hours, std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  const auto hour = static_cast<uint32_t>(local.tm_hour);
  return hours.first < hours.last ? hours.first <= hour && hour < hours.last
                                  : hours.first <= hour || hour < hours.last;
}

}  // namespace

// How a failed step is put off (its key in the retry book), and its message in the log.
struct RepairLoop::Failure {
  RetryKey key;
  std::string_view message;
};

RepairLoop::Failure RepairLoop::PoolFailure() {
  return {{Step::kRepair}, "repair of a pool failed"};
}

RepairLoop::Failure RepairLoop::FailureOf(const RepairStep& step) {
  switch (step.kind) {
    case RepairKind::kRepair:
      break;
    case RepairKind::kRebuild:
      return {{Step::kRebuild, step.ids.front()}, "rebuilding the legs of a volume failed"};
    case RepairKind::kStartStore:
      return {{Step::kStartStore, step.ids.front()}, "a thin store cannot be started"};
    case RepairKind::kTakeBack:
      return {{Step::kTakeBack, step.disk}, "LVM refused to take a returned disk back"};
    case RepairKind::kEvacuate:
      return {{Step::kEvacuate}, "evacuation of a disk failed"};
    case RepairKind::kReplaceLeg:
      return {{Step::kReplaceLeg}, "replacing a leg on another disk failed"};
    case RepairKind::kLimit:
      return {{Step::kLimit}, "setting the rebuild rate failed"};
    case RepairKind::kBeginScrub:
    case RepairKind::kRecordScrub:
      return {{Step::kScrub, step.ids.front()}, "scrub failed"};
    case RepairKind::kTagDisk:
      return {{Step::kTagDisk, step.disk}, "recording whether legs on a disk fail failed"};
  }
  return PoolFailure();
}

void RepairLoop::Round(RepairCause cause, const std::set<std::string>& accepted, const Call& call,
                       RepairReport& report) {
  const MutexLock lock(mutex_);
  OneRound round{.cause = cause, .accepted = accepted, .call = call, .report = report};
  RepairPool(round);
}

void RepairLoop::Stop() {
  const MutexLock lock(mutex_);
  copy_.reset();
}

// Looks first without the turn: usually there is nothing to do, and no caller should wait for that. A step is
// planned again under the turn, on the group at that moment.
void RepairLoop::RepairPool(OneRound& round) {
  CollectCopy(round);
  if (!IsDue(PoolFailure().key, round)) {
    if (const auto catalog = node_.Look(pool_, kPatience, round.call); catalog.has_value()) {
      NoteDisks(**catalog);
    }
    return;
  }
  std::optional<WriterQueue::Turn> turn;
  for (int steps = 0; steps < kMostSteps; ++steps) {
    const auto catalog = node_.Look(pool_, kPatience, round.call);
    if (!catalog.has_value()) {
      // Calls for the pool report this error themselves; here it is only the reason why no plan is possible.
      round.report.obstacles.push_back(catalog.error().message());
      round.report.NoLaterThan(kFirstRetry);
      return;
    }
    NoteDisks(**catalog);
    auto view = Look(**catalog, round);
    if (!view.has_value()) {
      return Failed(PoolFailure(), view.error(), round);
    }
    disks_.NoteFailures(*view);
    RepairPlan plan = PlanStep(*view, round);
    // Space that is held while it is zeroed may be what a step lacks.
    const bool in_the_way = !turn.has_value() && eraser_.free_zeroing().IsInTheWay(**catalog);
    if (!plan.step.has_value() && !in_the_way) {
      return NothingToDo(std::move(plan), round);
    }
    if (!turn.has_value()) {
      auto got = pool_.writers.Wait(fmt::format("repair of pool '{}'", pool_.config.name),
                                    round.call.Within(kStepLimit));
      if (!got.has_value()) {
        return Failed(PoolFailure(), got.error(), round);
      }
      turn.emplace(std::move(*got));
      if (in_the_way) {
        (void)eraser_.free_zeroing().End(round.call.Within(kStepLimit));
      }
      continue;  // plans again
    }
    if (!RunStep(std::move(*plan.step), **catalog, round)) {
      return;
    }
  }
  round.report.NoLaterThan(kFirstRetry);
}

// Before any repair step, the running scrubs are brought up to date: a repaired volume looks healthy again.
RepairPlan RepairLoop::PlanStep(const RepairView& view, OneRound& round) {
  std::vector<std::string> aborted;
  scrubs_.Look(view, aborted);
  RepairPlan plan = PlanRepair(view);
  if (plan.waiting) {
    round.report.NoLaterThan(kWhileWaiting);
  }
  if (!plan.step.has_value()) {
    plan.step = PlanTag(view, round);
  }
  if (!plan.step.has_value()) {
    const auto now = node_.world.clock.WallNow();
    plan.step = scrubs_.Next(view,
                             {.now = std::chrono::floor<std::chrono::seconds>(now),
                              .interval = node_.config.scrub_interval,
                              .may_begin = IsHourOf(node_.config.scrub_hours, now)},
                             aborted);
  }
  for (const std::string& words : aborted) {
    node_.log.Warning("scrub aborted", {{"pool", pool_.config.name}, {"detail", words}});
  }
  return plan;
}

// Comes after the repairs, because data are more urgent than the record.
std::optional<RepairStep> RepairLoop::PlanTag(const RepairView& view, OneRound& round) {
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    auto step = disks_.PlanTag(view.group(), pv);
    if (step.has_value() && IsDue({Step::kTagDisk, pv.uuid}, round)) {
      return step;
    }
  }
  return std::nullopt;
}

void RepairLoop::NothingToDo(RepairPlan plan, OneRound& round) {
  conditions_.NoteObstacles(plan.obstacles);
  std::ranges::move(plan.obstacles, std::back_inserter(round.report.obstacles));
  retries_.Forget(PoolFailure().key);
}

bool RepairLoop::RunStep(RepairStep step, const Catalog& catalog, OneRound& round) {
  if (step.unhurried) {
    // LVM locks the group while it changes it, but not while it copies. If another process allocates the
    // planned target first, LVM refuses the move and it is planned again.
    copy_ = std::make_unique<CopyJob>(std::move(step), node_);
    return false;
  }
  const Status done = Do(step, catalog, round);
  if (step.kind == RepairKind::kStartStore) {
    round.started.insert(step.ids.front());
  }
  AfterStep(step, done, round);
  if (!done.has_value() && step.kind == RepairKind::kTakeBack) {
    round.refused.insert(step.disk);
    // A lock, a killed command or a disk that has just come back may be the cause of the first failures.
    const Code code = done.error().code();
    const bool is_refusal = code != Code::kTimeout && code != Code::kUnavailable && code != Code::kCancelled;
    if (is_refusal && retries_.Attempts(FailureOf(step).key) >= kAttemptsToRefuse) {
      node_.refused_disks.Add(step.disk);
    }
    return true;
  }
  if (!done.has_value() && step.kind == RepairKind::kRebuild && done.error().code() != Code::kTimeout) {
    // The volumes behind it come in the next round, so that calls get their turn in between.
    round.not_rebuilt.insert(step.ids.front());
    round.report.NoLaterThan(milliseconds(1));
    return round.cause == RepairCause::kAsked;
  }
  // One evacuation step per round, so other calls and repairs come in between.
  return done.has_value() && step.kind != RepairKind::kEvacuate;
}

void RepairLoop::CollectCopy(OneRound& round) {
  if (copy_ == nullptr || !copy_->IsDone()) {
    return;
  }
  const Status& done = copy_->Wait();
  if (done.has_value()) {
    Tell(copy_->step(), round.report);
  }
  AfterStep(copy_->step(), done, round);
  copy_.reset();
}

void RepairLoop::AfterStep(const RepairStep& step, const Status& done, OneRound& round) {
  const Failure failure = FailureOf(step);
  if (IsScrub(step)) {
    scrubs_.Note(step, done.has_value());
  }
  if (step.kind == RepairKind::kStartStore) {
    // Also after a success: a store that falls ill again at once is not started again and again.
    node_.store_troubles.Note(step.ids.front(), done);
    if (done.has_value()) {
      node_.stopped_volumes.Forget(step.ids.front());
      retries_.PutOff(failure.key, kFirstRefresh, node_.world.clock.Now());
    }
  }
  if (!done.has_value()) {
    return Failed(failure, done.error(), round);
  }
  if (step.kind == RepairKind::kRebuild || step.kind == RepairKind::kTagDisk) {
    retries_.Forget(failure.key);
  } else if (step.kind == RepairKind::kEvacuate) {
    retries_.Forget(failure.key);
    round.report.NoLaterThan(milliseconds(1));
  } else if (IsScrub(step)) {
    AfterScrub(step);
  }
}

void RepairLoop::AfterScrub(const RepairStep& step) {
  const std::string& id = step.ids.front();
  if (step.kind == RepairKind::kBeginScrub) {
    node_.log.Info("scrub started", {{"volume", id}, {"repair", step.repairs}});
    return;
  }
  retries_.Forget({Step::kScrub, id});
  if (step.repairs) {
    node_.log.Info("scrub finished, differences were repaired", {{"volume", id}});
    return;
  }
  node_.log.Log(step.mismatched.value == 0 ? LogLevel::kInfo : LogLevel::kWarning, "scrub finished",
                {{"volume", id}, {"mismatched_bytes", static_cast<int64_t>(step.mismatched.value)}});
}

bool RepairLoop::IsDue(const RetryKey& key, OneRound& round) {
  if (round.cause == RepairCause::kAsked) {
    return true;
  }
  const auto wait = retries_.Wait(key, node_.world.clock.Now());
  if (wait.has_value()) {
    round.report.NoLaterThan(*wait);
  }
  return !wait.has_value();
}

// A cancelled step is not a failure.
void RepairLoop::Failed(const Failure& failure, const Error& error, OneRound& round) {
  if (round.call.stop.stop_requested()) {
    return;
  }
  const std::string& pool = pool_.config.name;
  node_.log.Warning(failure.message, {{"pool", pool}, {"error", error.message()}});
  round.report.obstacles.push_back(fmt::format("pool '{}': {}", pool, error.message()));
  retries_.PutOff(failure.key, kFirstRetry, node_.world.clock.Now());
  // An administrator's round schedules the next attempt, too.
  if (const auto wait = retries_.Wait(failure.key, node_.world.clock.Now()); wait.has_value()) {
    round.report.NoLaterThan(*wait);
  }
}

// The locks are tried, not waited for: their holder may be waiting for the turn.
Status RepairLoop::Do(const RepairStep& step, const Catalog& catalog, OneRound& round) {
  std::vector<KeyLocks::Guard> guards;
  for (const std::string& id : step.ids) {
    QUARRY_ASSIGN(KeyLocks::Guard guard,
                  node_.locks.TryLock(LockKeyOf(catalog, id), fmt::format("repair of {}", id)));
    guards.push_back(std::move(guard));
  }
  for (const Action& action : step.actions) {
    if (Is<lvm::RefreshLvs>(action) || std::holds_alternative<ReviveAction>(action)) {
      for (const std::string& id : step.ids) {
        retries_.PutOff({Step::kRefresh, id}, kFirstRefresh, node_.world.clock.Now());
      }
    }
  }
  const bool starts_store = step.kind == RepairKind::kStartStore;
  if (starts_store) {
    for (const Action& action : step.actions) {
      if (const auto* const activate = std::get_if<ActivateAction>(&action); activate != nullptr) {
        node_.stopped_volumes.Add(step.ids.front(), activate->names);  // if it does not come to that now
      }
    }
  }
  QUARRY_TRY(RunCounted(pool_, step.actions, node_.world,
                        round.call.Within(starts_store ? kStoreLimit : kStepLimit)));
  if (std::ranges::any_of(step.actions, [](const Action& a) { return Is<lvm::ChangeTags>(a); })) {
    eraser_.Wake();  // a leg may have been removed (taken_out.h)
  }
  if (!IsScrub(step) && step.kind != RepairKind::kTagDisk) {
    Tell(step, round.report);
  }
  return Ok();
}

void RepairLoop::Tell(const RepairStep& step, RepairReport& report) {
  for (const Action& action : step.actions) {
    report.done.push_back(Text(action));
    node_.log.Info("repair step done", {{"pool", pool_.config.name}, {"step", report.done.back()}});
  }
}

void RepairLoop::NoteDisks(const Catalog& catalog) {
  for (const lvm::PhysicalVolume& pv : catalog.group->pvs) {
    if (!pv.missing || pv.device.empty()) {
      node_.refused_disks.Drop(pv.uuid);  // taken back, or away again
    }
  }
  eraser_.GiveUp({}, disks_.NoteMissing(catalog));
}

// A volume that a call is working on is in use.
Status RepairLoop::DropIdleHolds(const Catalog& catalog, const Store& store) {
  for (const Record& record : catalog.records) {
    if (record.lv->pool != store.lv->name || !node_.holds.Has(record.tags.id)) {
      continue;
    }
    const auto guard = node_.locks.TryLock(LockKeyOf(record), "looking whether it is in use");
    QUARRY_TRY(guard.has_value() ? node_.DropIdleHold(record) : Ok());
  }
  return Ok();
}

Status RepairLoop::LookAtStores(const Catalog& catalog, RepairView& view, OneRound& round) {
  for (const Store& store : catalog.stores) {
    QUARRY_ASSIGN(const auto running,
                  node_.world.dm.ThinPool(lvm::DmUuid(catalog.group->uuid, store.lv->uuid)));
    const RetryKey start{Step::kStartStore, store.tags.id};
    const bool due = IsDue(start, round) && !round.started.contains(store.tags.id);
    std::vector<ActiveVolume> active;
    QUARRY_ASSIGN(std::string why, WhyRestart(*catalog.group, *store.lv, node_.world.dm));
    if (!why.empty()) {
      QUARRY_TRY(DropIdleHolds(catalog, store));
      QUARRY_ASSIGN(active, ActiveVolumesIn(*catalog.group, *store.lv, node_.world.dm));
      view.sick_stores.push_back({&store, std::move(why), active, due});
    } else if (running.has_value()) {
      if (due) {
        retries_.Forget(start);  // it has been well for as long as the next attempt was put off
      }
      node_.store_troubles.Note(store.tags.id, Ok());
    } else if (lvm::MayStartDegraded(*catalog.group, *store.lv).has_value() && due) {
      view.stopped_stores.push_back(store.lv->name);
    }
    view.activate[store.tags.id] =
        NamesToActivate(*catalog.group, *store.lv, active, node_.stopped_volumes.Of(store.tags.id));
  }
  return Ok();
}

Result<RepairView> RepairLoop::Look(const Catalog& catalog, OneRound& round) {
  RepairView view = LookAtDisks(catalog, round);
  QUARRY_ASSIGN(view.volumes, LookAtVolumes(catalog, round));
  QUARRY_TRY(LookAtStores(catalog, view, round));
  for (const lvm::PhysicalVolume& pv : view.group().pvs) {
    if (round.refused.contains(pv.uuid) || !IsDue({Step::kTakeBack, pv.uuid}, round)) {
      view.refused.insert(pv.uuid);
    }
  }
  for (const VolumeView& volume : view.volumes) {
    const std::string& id = volume.record->tags.id;
    if (round.not_rebuilt.contains(id) || !IsDue({Step::kRebuild, id}, round)) {
      view.not_rebuilt.insert(id);
    }
  }
  for (VolumeView& volume : view.volumes) {
    const Store* const store = catalog.StoreOfPart(*volume.record);
    volume.accepted = round.accepted.contains(store == nullptr ? volume.record->tags.id : store->tags.id);
    if (volume.accepted && !volume.active && !volume.doubt.has_value()) {
      // The volume may not have been used since the start, so its superblocks were not checked yet.
      volume.doubt = node_.LookForDoubt(*volume.record).value_or(std::nullopt);
    }
  }
  return view;
}

RepairView RepairLoop::LookAtDisks(const Catalog& catalog, OneRound& round) {
  const SteadyTime now = node_.world.clock.Now();
  const bool asked = round.cause == RepairCause::kAsked;
  RepairView view{.catalog = &catalog};
  // An administrator who asks for repairs does not wait for an evacuation, which may take hours.
  view.may_evacuate = !asked && copy_ == nullptr && IsDue({Step::kEvacuate}, round);
  if (node_.config.rebuild_rate.has_value() && IsDue({Step::kLimit}, round)) {
    view.rebuild_rate = node_.config.rebuild_rate;
  }
  MissingDisks missing = ObserveMissing(
      *catalog.group, disks_.missing_since(),
      {.at_once = asked, .after_delay = node_.config.repair, .delay = node_.config.repair_delay}, now);
  if (missing.next.has_value()) {
    round.report.NoLaterThan(*missing.next);
  }
  view.given_up = std::move(missing.given_up);
  eraser_.GiveUp(view.given_up, missing.all);
  view.may_replace_legs = (node_.config.repair || asked) && IsDue({Step::kReplaceLeg}, round);
  return view;
}

// HealthOf() reads what LookAt() wrote down of the volume, so it comes right after LookAt().
Result<std::vector<VolumeView>> RepairLoop::LookAtVolumes(const Catalog& catalog, OneRound& round) {
  const bool disks = round.cause != RepairCause::kEvent || catalog.group->MissingPvs() > 0;
  std::vector<VolumeView> volumes;
  QUARRY_ASSIGN(const mount::MountTable mounts, node_.world.mount.Mounts());
  ConditionLog::Conditions conditions;
  for (const std::vector<Record>* const list : {&catalog.parts, &catalog.records}) {
    for (const Record& record : *list) {
      if (record.tags.state == lvm::VolumeState::kReady) {
        QUARRY_ASSIGN(const RaidReport raid, node_.RaidOf(record));
        QUARRY_ASSIGN(VolumeView volume, LookAt(record, raid, disks, round));
        volumes.push_back(std::move(volume));
        QUARRY_ASSIGN(const Health health, node_.HealthOf(record, raid, mounts));
        conditions.emplace(record.tags.id, conditions_.Note(record.tags.id, health));
      }
    }
  }
  conditions_.Keep(std::move(conditions));
  return volumes;
}

// Writes down what was observed before the volume's attempts are consulted: attempts before a disk was pulled
// no longer count. A volume that cannot be observed changes nothing.
Result<VolumeView> RepairLoop::LookAt(const Record& record, const RaidReport& raid, bool disks,
                                      OneRound& round) {
  const std::string& id = record.tags.id;
  const RetryKey refresh{Step::kRefresh, id};
  const VolumeMemory memory{.doubtful = node_.doubts.Of(id).has_value(),
                            .on_lost_disk = node_.lost_in_kernel.Has(id),
                            .scrubbing = scrubs_.IsRunning(id)};
  QUARRY_ASSIGN(VolumeObservation seen,
                ObserveVolume(record, raid.status, memory, disks, node_.world.dm, node_.world.raid_legs));
  VolumeView volume = std::move(seen.view);
  if (seen.on_lost_disk.has_value()) {
    if (*seen.on_lost_disk && !memory.on_lost_disk) {
      retries_.Forget(refresh);  // pulled: earlier failures had another cause
    }
    if (*seen.on_lost_disk) {
      node_.lost_in_kernel.Add(id);
    } else {
      node_.lost_in_kernel.Drop(id);
    }
  }
  if (seen.doubt_changed) {
    node_.doubts.Set(id, volume.active ? std::nullopt : volume.doubt);
  }
  const bool failed = HasFailedLeg(volume);
  const bool due = IsDue(refresh, round);
  if (failed || volume.on_lost_disk) {
    volume.refresh_due = due;
    // The kernel may keep a leg of a store that is whole as failed until the store is started again
    // (docs/thin.md, 7): that says nothing of the disk.
    volume.hopeless = !IsPart(record) && failed && !volume.on_lost_disk && due &&
                      retries_.Attempts(refresh) >= kRefreshAttempts;
  } else if (due) {
    // It has been healthy for as long as the next attempt was put off.
    retries_.Forget(refresh);
  }
  volume.scrub_due = IsDue({Step::kScrub, id}, round);
  return volume;
}

}  // namespace quarry::engine
