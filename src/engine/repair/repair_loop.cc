#include "engine/repair/repair_loop.h"

#include <algorithm>
#include <ctime>
#include <set>

#include <fmt/format.h>

#include "engine/model/config.h"
#include "engine/repair/observe.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// LVM needs seconds for the longest of these steps. Only a disk that does not answer takes longer.
constexpr milliseconds kStepLimit{300'000};
// First delay before a leg is taken back again. The delay doubles each time its disk fails at once.
constexpr milliseconds kFirstRefresh{30'000};
constexpr milliseconds kFirstRetry{10'000};
// Interval of looks while legs are being rebuilt: the kernel announces the end, but not that a rebuild waits
// for another one.
constexpr milliseconds kWhileWaiting{2'000};
// How long one pool may take to be read: other pools are repaired in the same round.
constexpr milliseconds kPatience{10'000};
// Limit of one round. A plan that does not end is a bug; the next round continues.
constexpr int kMostSteps = 100;

RetryKey PoolKey(const Pool& pool) {
  return PoolStep{pool.config.name, PoolStep::Kind::kRepair};
}
RetryKey EvacuationKey(const Pool& pool) {
  return PoolStep{pool.config.name, PoolStep::Kind::kEvacuate};
}
RetryKey ReplaceLegKey(const Pool& pool) {
  return PoolStep{pool.config.name, PoolStep::Kind::kReplaceLeg};
}
RetryKey RateKey(const Pool& pool) {
  return PoolStep{pool.config.name, PoolStep::Kind::kLimit};
}
RetryKey RefreshKey(const std::string& id) {
  return VolumeStep{id, VolumeStep::Kind::kRefresh};
}
RetryKey ScrubKey(const std::string& id) {
  return VolumeStep{id, VolumeStep::Kind::kScrub};
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

RepairReport RepairLoop::Round(RepairCause cause, const std::set<std::string>& accepted, const Call& call) {
  const std::lock_guard lock(mutex_);
  RepairReport report;
  for (const auto& pool : node_.pools) {
    RepairPool(*pool, cause, accepted, call, report);
  }
  return report;
}

// Looks first without the turn: usually there is nothing to do, and no caller should wait for that. A step is
// planned again under the turn, on the group at that moment.
void RepairLoop::RepairPool(Pool& pool, RepairCause cause, const std::set<std::string>& accepted,
                            const Call& call, RepairReport& report) {
  const RetryKey key = PoolKey(pool);
  const auto fail = [&](const Error& error) {
    Failed(key, "repair of a pool failed", pool, error, call, report);
  };
  CollectCopy(pool, call, report);
  if (!IsDue(key, cause, report)) {
    if (const auto catalog = node_.Look(pool, kPatience, call); catalog.has_value()) {
      NoteDisks(pool, **catalog);
    }
    return;
  }
  std::optional<WriterQueue::Turn> turn;
  std::set<std::string> refused;
  for (int steps = 0; steps < kMostSteps; ++steps) {
    const auto catalog = node_.Look(pool, kPatience, call);
    if (!catalog.has_value()) {
      // Calls for the pool report this error themselves; here it is only the reason why no plan is possible.
      report.obstacles.push_back(catalog.error().message());
      report.NoLaterThan(kFirstRetry);
      return;
    }
    NoteDisks(pool, **catalog);
    auto view = Look(pool, **catalog, cause, report);
    if (!view.has_value()) {
      return fail(view.error());
    }
    for (const lvm::PhysicalVolume& pv : view->group().pvs) {
      if (refused.contains(pv.uuid) || !IsDue(DiskStep{pv.uuid}, cause, report)) {
        view->refused.insert(pv.uuid);
      }
    }
    for (VolumeView& volume : view->volumes) {
      volume.accepted = accepted.contains(volume.record->tags.id);
      if (volume.accepted && !volume.active && !volume.doubt.has_value()) {
        // The volume may not have been used since the start, so its superblocks were not checked yet.
        volume.doubt = node_.LookForDoubt(*volume.record).value_or(std::nullopt);
      }
    }
    disks_.NoteFailures(pool.config.name, *view);
    std::vector<std::string> lost;
    scrubs_.Look(*view, lost);
    TellOfLost(pool, lost);
    RepairPlan plan = PlanRepair(*view);
    if (plan.waiting) {
      report.NoLaterThan(kWhileWaiting);
    }
    if (!plan.step.has_value()) {
      plan.step = NextScrub(pool, *view);
    }
    if (!plan.step.has_value()) {
      conditions_.NoteObstacles(pool.config.name, plan.obstacles);
      std::ranges::move(plan.obstacles, std::back_inserter(report.obstacles));
      retries_.Forget(key);
      return;
    }
    if (!turn.has_value()) {
      auto got =
          pool.writers.Wait(fmt::format("repair of pool '{}'", pool.config.name), call.Within(kStepLimit));
      if (!got.has_value()) {
        return fail(got.error());
      }
      turn.emplace(std::move(*got));
      continue;
    }
    if (plan.step->unhurried) {
      // LVM locks the group while it changes it, but not while it copies. If another process allocates the
      // planned target first, LVM refuses the move and it is planned again.
      copies_[pool.config.name] = std::make_unique<CopyJob>(std::move(*plan.step), node_);
      return;
    }
    if (!AfterStep(pool, *plan.step, Do(pool, *plan.step, call, report), call, report)) {
      if (plan.step->kind != RepairKind::kTakeBack) {
        return;
      }
      refused.insert(plan.step->disk);
    }
  }
  report.NoLaterThan(kFirstRetry);
}

void RepairLoop::CollectCopy(const Pool& pool, const Call& call, RepairReport& report) {
  const auto copy = copies_.find(pool.config.name);
  if (copy == copies_.end() || !copy->second->IsDone()) {
    return;
  }
  const Status& done = copy->second->Wait();
  if (done.has_value()) {
    Tell(pool, copy->second->step(), report);
  }
  AfterEvacuation(pool, done, call, report);
  copies_.erase(copy);
}

void RepairLoop::Stop() {
  const std::lock_guard lock(mutex_);
  copies_.clear();
}

bool RepairLoop::AfterStep(const Pool& pool, const RepairStep& step, const Status& done, const Call& call,
                           RepairReport& report) {
  switch (step.kind) {
    case RepairKind::kEvacuate:
      AfterEvacuation(pool, done, call, report);
      return false;
    case RepairKind::kBeginScrub:
    case RepairKind::kRecordScrub:
      AfterScrub(pool, step, done, call, report);
      break;
    case RepairKind::kReplaceLeg:
      if (!done.has_value()) {
        Failed(ReplaceLegKey(pool), "replacing a leg on another disk failed", pool, done.error(), call,
               report);
      }
      break;
    case RepairKind::kLimit:
      if (!done.has_value()) {
        Failed(RateKey(pool), "setting the rebuild rate failed", pool, done.error(), call, report);
      }
      break;
    case RepairKind::kTakeBack:
      if (!done.has_value()) {
        Failed(DiskStep{step.disk}, "LVM refused to take a returned disk back", pool, done.error(), call,
               report);
      }
      break;
    case RepairKind::kRepair:
      if (!done.has_value()) {
        Failed(PoolKey(pool), "repair of a pool failed", pool, done.error(), call, report);
      }
      break;
  }
  return done.has_value();
}

// One evacuation step per round, so other calls and repairs come in between.
void RepairLoop::AfterEvacuation(const Pool& pool, const Status& done, const Call& call,
                                 RepairReport& report) {
  if (done.has_value()) {
    retries_.Forget(EvacuationKey(pool));
    report.NoLaterThan(milliseconds(1));
    return;
  }
  Failed(EvacuationKey(pool), "evacuation of a disk failed", pool, done.error(), call, report);
}

void RepairLoop::AfterScrub(const Pool& pool, const RepairStep& step, const Status& done, const Call& call,
                            RepairReport& report) {
  const std::string& id = step.ids.front();
  if (!done.has_value()) {
    scrubs_.Failed(step);
    return Failed(ScrubKey(id), "scrub failed", pool, done.error(), call, report);
  }
  if (step.kind == RepairKind::kBeginScrub) {
    scrubs_.Began(step);
    node_.log.Info("scrub started", {{"volume", id}, {"repair", step.repairs}});
    return;
  }
  scrubs_.Recorded(step);
  retries_.Forget(ScrubKey(id));
  if (step.repairs) {
    node_.log.Info("scrub finished, differences were repaired", {{"volume", id}});
    return;
  }
  node_.log.Log(step.mismatched.value == 0 ? LogLevel::kInfo : LogLevel::kWarning, "scrub finished",
                {{"volume", id}, {"mismatched_bytes", static_cast<int64_t>(step.mismatched.value)}});
}

std::optional<RepairStep> RepairLoop::NextScrub(const Pool& pool, const RepairView& view) {
  const auto now = node_.world.clock.WallNow();
  std::vector<std::string> lost;
  auto step = scrubs_.Next(view,
                           {.now = std::chrono::floor<std::chrono::seconds>(now),
                            .interval = node_.config.scrub_interval,
                            .may_begin = IsHourOf(node_.config.scrub_hours, now)},
                           lost);
  TellOfLost(pool, lost);
  return step;
}

void RepairLoop::TellOfLost(const Pool& pool, const std::vector<std::string>& lost) {
  for (const std::string& words : lost) {
    node_.log.Warning("scrub aborted", {{"pool", pool.config.name}, {"detail", words}});
  }
}

// Schedules another attempt, later each time. A cancelled step is not a failure.
void RepairLoop::Failed(const RetryKey& key, const std::string& what, const Pool& pool, const Error& error,
                        const Call& call, RepairReport& report) {
  if (call.stop.stop_requested()) {
    return;
  }
  node_.log.Warning(what, {{"pool", pool.config.name}, {"error", error.message()}});
  report.obstacles.push_back(fmt::format("pool '{}': {}", pool.config.name, error.message()));
  retries_.PutOff(key, kFirstRetry, node_.world.clock.Now());
  (void)IsDue(key, RepairCause::kEvent, report);
}

// The locks are tried, not waited for: their holder may be waiting for the turn.
Status RepairLoop::Do(Pool& pool, const RepairStep& step, const Call& call, RepairReport& report) {
  std::vector<KeyLocks::Guard> guards;
  for (const std::string& id : step.ids) {
    QUARRY_ASSIGN(KeyLocks::Guard guard, node_.locks.TryLock("id:" + id, fmt::format("repair of {}", id)));
    guards.push_back(std::move(guard));
  }
  for (const Action& action : step.actions) {
    if (std::holds_alternative<RefreshAction>(action) || std::holds_alternative<ReviveAction>(action)) {
      for (const std::string& id : step.ids) {
        retries_.PutOff(RefreshKey(id), kFirstRefresh, node_.world.clock.Now());
      }
    }
  }
  QUARRY_TRY(RunCounted(pool, step.actions, node_.world, call.Within(kStepLimit)));
  if (std::ranges::any_of(step.actions,
                          [](const Action& a) { return std::holds_alternative<RetagAction>(a); })) {
    erasers_.Wake(pool);  // a leg may have been removed (taken_out.h)
  }
  if (step.kind != RepairKind::kBeginScrub && step.kind != RepairKind::kRecordScrub) {
    Tell(pool, step, report);
  }
  return Ok();
}

void RepairLoop::Tell(const Pool& pool, const RepairStep& step, RepairReport& report) {
  for (const Action& action : step.actions) {
    report.done.push_back(Text(action));
    node_.log.Info("repair step done", {{"pool", pool.config.name}, {"step", report.done.back()}});
  }
}

// Writes down what was observed before the volume's attempts are consulted: attempts before a disk was pulled
// no longer count. A volume that cannot be observed changes nothing.
Result<VolumeView> RepairLoop::LookAt(const Record& record, const RaidReport& raid, RepairCause cause,
                                      bool disks, RepairReport& report) {
  const std::string& id = record.tags.id;
  const VolumeMemory memory{.doubtful = node_.doubts.Of(id).has_value(),
                            .on_lost_disk = node_.lost_in_kernel.Has(id),
                            .scrubbing = scrubs_.IsRunning(id)};
  QUARRY_ASSIGN(VolumeObservation seen,
                ObserveVolume(record, raid.status, memory, disks, node_.world.dm, node_.world.raid_legs));
  VolumeView& volume = seen.view;
  if (seen.on_lost_disk.has_value()) {
    if (*seen.on_lost_disk && !memory.on_lost_disk) {
      retries_.Forget(RefreshKey(id));  // pulled: earlier failures had another cause
    }
    node_.lost_in_kernel.Set(id, *seen.on_lost_disk);
  }
  switch (seen.doubt_change) {
    case VolumeObservation::DoubtChange::kNone:
      break;
    case VolumeObservation::DoubtChange::kSet:
      node_.doubts.Set(id, volume.doubt);
      break;
    case VolumeObservation::DoubtChange::kClear:
      node_.doubts.Set(id, std::nullopt);
      break;
  }
  const bool failed = HasFailedLeg(volume);
  if (failed || volume.on_lost_disk) {
    volume.refresh_due = IsDue(RefreshKey(id), cause, report);
    volume.hopeless = failed && !volume.on_lost_disk && volume.refresh_due &&
                      retries_.Attempts(RefreshKey(id)) >= kRefreshAttempts;
  } else if (IsDue(RefreshKey(id), cause, report)) {
    // It has been healthy for as long as the next attempt was put off.
    retries_.Forget(RefreshKey(id));
  }
  volume.scrub_due = IsDue(ScrubKey(id), cause, report);
  return std::move(volume);
}

Result<RepairView> RepairLoop::Look(Pool& pool, const Catalog& catalog, RepairCause cause,
                                    RepairReport& report) {
  const SteadyTime now = node_.world.clock.Now();
  // An administrator who asks for repairs does not wait for an evacuation, which may take hours.
  const bool may_evacuate = cause != RepairCause::kAsked && !copies_.contains(pool.config.name) &&
                            IsDue(EvacuationKey(pool), cause, report);
  RepairView view{.catalog = &catalog, .volumes = {}, .given_up = {}, .may_evacuate = may_evacuate};
  if (node_.config.rebuild_rate.has_value() && IsDue(RateKey(pool), cause, report)) {
    view.rebuild_rate = node_.config.rebuild_rate;
  }
  MissingDisks missing = ObserveMissing(*catalog.group, disks_.missing_since(),
                                        {.at_once = cause == RepairCause::kAsked,
                                         .after_delay = node_.config.repair,
                                         .delay = node_.config.repair_delay},
                                        now);
  if (missing.next.has_value()) {
    report.NoLaterThan(*missing.next);
  }
  view.given_up = std::move(missing.given_up);
  erasers_.GiveUp(pool, view.given_up, missing.all);
  view.may_replace_legs =
      (node_.config.repair || cause == RepairCause::kAsked) && IsDue(ReplaceLegKey(pool), cause, report);
  const bool disks = cause != RepairCause::kEvent || catalog.group->MissingPvs() > 0;
  QUARRY_ASSIGN(const mount::MountTable mounts, node_.world.mount.Mounts());
  ConditionLog::Conditions conditions;
  for (const Record& record : catalog.records) {
    if (record.tags.state == lvm::VolumeState::kReady) {
      QUARRY_ASSIGN(const RaidReport raid, node_.RaidOf(record));
      QUARRY_ASSIGN(VolumeView volume, LookAt(record, raid, cause, disks, report));
      view.volumes.push_back(std::move(volume));
      QUARRY_ASSIGN(const Health health, node_.HealthOf(record, raid, mounts));
      conditions.emplace(record.tags.id, conditions_.Note(pool.config.name, record.tags.id, health));
    }
  }
  conditions_.Keep(pool.config.name, std::move(conditions));
  return view;
}

void RepairLoop::NoteDisks(Pool& pool, const Catalog& catalog) {
  erasers_.GiveUp(pool, {}, disks_.NoteMissing(pool.config.name, catalog));
}

bool RepairLoop::IsDue(const RetryKey& key, RepairCause cause, RepairReport& report) {
  if (cause == RepairCause::kAsked) {
    return true;
  }
  const auto wait = retries_.Wait(key, node_.world.clock.Now());
  if (wait.has_value()) {
    report.NoLaterThan(*wait);
  }
  return !wait.has_value();
}

}  // namespace quarry::engine
