#include "engine/eraser.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/plan_controller.h"
#include "engine/provision.h"
#include "engine/state.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{2000};
constexpr milliseconds kLastRetry{60000};
// An LVM command that outlived the quarryd that ran it may leave something half-made after the start has
// looked.
constexpr std::chrono::minutes kLookAnyway{5};
constexpr milliseconds kReadLimit{60000};
constexpr milliseconds kLvmLimit{120000};

ErasePolicy PolicyOf(const Record& record) {
  for (const ErasePolicy policy : {ErasePolicy::kDiscard, ErasePolicy::kNone}) {
    if (EraseName(policy) == record.tags.erase) {
      return policy;
    }
  }
  return ErasePolicy::kZero;  // whatever the tag says, the safe one
}

bool BeingMade(Pool& pool, const Record& record) {
  const std::lock_guard lock(pool.making_mutex);
  return pool.making.contains(record.lv->name);
}

}  // namespace

Eraser::Eraser(std::vector<Pool*> pools, World world, const Logger& log)
    : pools_(std::move(pools)),
      world_(world),
      log_(log),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Eraser::~Eraser() = default;  // jthread: asks to stop, then joins

void Eraser::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  wake_.notify_all();
}

void Eraser::Run(const std::stop_token& stop) {
  milliseconds retry = kFirstRetry;
  bool undone = false;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      const auto woken = [&] { return woken_; };
      if (undone) {
        wake_.wait_for(lock, stop, retry, woken);
        retry = std::min(retry * 2, kLastRetry);
      } else {
        wake_.wait_for(lock, stop, kLookAnyway, woken);
        retry = kFirstRetry;
      }
      woken_ = false;
    }
    undone = false;
    for (Pool* pool : pools_) {
      undone = !stop.stop_requested() && Round(*pool, stop) ? true : undone;
    }
  }
}

bool Eraser::Round(Pool& pool, const std::stop_token& stop) {
  auto group = world_.lvm.Read(pool.config.group, Call{.stop = stop}.Within(kReadLimit));
  if (!group.has_value()) {
    if (!stop.stop_requested()) {
      log_.Warning("eraser cannot read a volume group",
                   {{"pool", pool.config.name}, {"error", group.error().message()}});
    }
    return true;
  }
  bool undone = SweepCleanings(pool, world_, Call{.stop = stop}.Within(kLvmLimit));
  for (const Record& record : ReadCatalog(pool.config.name, *group).records) {
    if (record.tags.state == lvm::VolumeState::kReady || stop.stop_requested() ||
        (record.tags.state == lvm::VolumeState::kCreating && BeingMade(pool, record))) {
      continue;
    }
    auto finished = Finish(pool, record, stop);
    if (!finished.has_value() && !stop.stop_requested()) {
      undone = true;
      log_.Warning(
          "a deleted volume could not be cleared away yet",
          {{"pool", pool.config.name}, {"lv", record.lv->name}, {"error", finished.error().message()}});
    }
  }
  return undone;
}

Status Eraser::Finish(Pool& pool, const Record& record, const std::stop_token& stop) {
  const Call call{.stop = stop};
  const auto started = world_.clock.Now();
  const bool erasing = record.tags.state == lvm::VolumeState::kErasing;
  if (erasing) {
    {
      const Call limited = call.Within(kLvmLimit);
      QUARRY_ASSIGN(const auto turn, pool.writers.Wait("deactivating before erasing", limited));
      QUARRY_TRY(Execute({DeactivateAction{record.group->name, record.lv->name, record.DmUuids()}}, world_,
                         limited));
    }
    QUARRY_ASSIGN(const Plan erase, PlanErase(record, PolicyOf(record)));
    QUARRY_TRY(Execute(erase, world_, call));  // as long as it takes, outside the writers' queue
  }
  const Call limited = call.Within(kLvmLimit);
  QUARRY_ASSIGN(const auto turn, pool.writers.Wait("removing an erased volume", limited));
  QUARRY_ASSIGN(const lvm::Snapshot now, world_.lvm.Read(record.group->name, limited));
  const lvm::LogicalVolume* lv = now->FindLv(record.lv->name);
  if (lv == nullptr) {
    return Ok();
  }
  const auto extents = lvm::PhysicalExtents(*record.group, *record.lv);
  if (erasing && !LiesOnJust(*now, *lv, extents)) {
    return Error(Code::kUnavailable, "it was moved to other extents while it was erased; these come next");
  }
  // Between the report and this turn a create may have finished: only what still bears the marker, and that
  // nobody is making, is left over.
  if (!erasing && (BeingMade(pool, record) ||
                   std::find(lv->tags.begin(), lv->tags.end(), lvm::kCreatingTag) == lv->tags.end())) {
    return Ok();
  }
  pool.clean.Look(*now);
  QUARRY_TRY(RunCounted(pool, {RemoveLvAction{record.group->name, record.lv->name}}, world_, limited));
  if (erasing && PolicyOf(record) == ErasePolicy::kZero) {
    pool.clean.Add(extents);
  }
  const auto elapsed = std::chrono::duration<double>(world_.clock.Now() - started).count();
  log_.Info(erasing ? "erased a deleted volume" : "removed a half-made volume",
            {{"pool", pool.config.name}, {"lv", record.lv->name}, {"seconds", elapsed}});
  return Ok();
}

}  // namespace quarry::engine
