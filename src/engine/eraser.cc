#include "engine/eraser.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/metadata_room.h"
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
// A commit for the progress of a volume is worth that much clearing.
constexpr Bytes kRecordEvery = DiskQueue::kTold;
// LVM's limit for a tag.
constexpr size_t kLongestTag = 1024;
// So many volumes are removed by one command: it holds LVM's lock, and has kLvmLimit for all of them.
constexpr size_t kRemovedAtOnce = 40;

milliseconds Longer(milliseconds delay) {
  return std::clamp(delay * 2, kFirstRetry, kLastRetry);
}

bool BeingMade(Pool& pool, const Record& record) {
  const std::lock_guard lock(pool.making_mutex);
  return pool.making.contains(record.lv->name);
}

Bytes Sum(const std::vector<Bytes>& sizes) {
  Bytes sum;
  for (const Bytes size : sizes) {
    sum = sum + size;
  }
  return sum;
}

bool IsErasing(const Record& record) {
  return record.tags.state == lvm::VolumeState::kErasing;
}

}  // namespace

Eraser::Eraser(std::vector<Pool*> pools, World world, const Logger& log, Bytes rate)
    : pools_(std::move(pools)),
      world_(world),
      log_(log),
      rate_(rate),
      pool_delay_(0),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Eraser::~Eraser() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  for (const auto& [device, queue] : queues_) {
    queue->Stop();  // all at once: each is joined when it goes
  }
}

void Eraser::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  wake_.notify_all();
}

std::optional<std::chrono::seconds> Eraser::Expected(const lvm::VolumeGroup& group) const {
  const std::lock_guard lock(mutex_);
  std::chrono::duration<double> longest(0);
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    const auto queue = queues_.find(pv.device);
    const auto expected =
        queue == queues_.end() ? std::chrono::duration<double>(0) : queue->second->Expected();
    if (!expected.has_value()) {
      return std::nullopt;
    }
    longest = std::max(longest, *expected);
  }
  return std::chrono::ceil<std::chrono::seconds>(longest);
}

DiskQueue& Eraser::QueueOf(const std::string& device) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<DiskQueue>& queue = queues_[device];
  if (queue == nullptr) {
    queue = std::make_unique<DiskQueue>(world_, rate_, [this] { Wake(); });
  }
  return *queue;
}

void Eraser::NoLaterThan(SteadyTime when) {
  next_round_ = std::min(next_round_, when);
}

void Eraser::Run(const std::stop_token& stop) {
  next_round_ = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, stop, next_round_, [&] { return woken_; });
      woken_ = false;
    }
    next_round_ = std::chrono::steady_clock::now() + kLookAnyway;
    for (Pool* pool : pools_) {
      if (!stop.stop_requested()) {
        Round(*pool, stop);
      }
    }
  }
}

void Eraser::Round(Pool& pool, const std::stop_token& stop) {
  const auto again = [&] {
    pool_delay_ = Longer(pool_delay_);
    NoLaterThan(std::chrono::steady_clock::now() + pool_delay_);
  };
  auto group = world_.lvm.Read(pool.config.group, Call{.stop = stop}.Within(kReadLimit));
  if (!group.has_value()) {
    if (!stop.stop_requested()) {
      log_.Warning("eraser cannot read a volume group",
                   {{"pool", pool.config.name}, {"error", group.error().message()}});
    }
    again();
    return;
  }
  bool undone = SweepCleanings(pool, world_, Call{.stop = stop}.Within(kLvmLimit));
  const Catalog catalog = ReadCatalog(pool.config.name, *group);
  ForgetGone(pool, catalog);
  std::vector<Record> removable;
  for (const Record& record : catalog.records) {
    if (stop.stop_requested()) {
      return;
    }
    const bool left_over = record.tags.state == lvm::VolumeState::kCreating && !BeingMade(pool, record);
    if (removable.size() < kRemovedAtOnce &&
        (left_over || (IsErasing(record) && Proceed(pool, record, stop)))) {
      removable.push_back(record);
    }
  }
  if (!removable.empty()) {
    const auto removed = Remove(pool, removable, stop);
    if (!removed.has_value() && !stop.stop_requested()) {
      undone = true;
      log_.Warning("deleted volumes could not be removed yet",
                   {{"pool", pool.config.name}, {"error", removed.error().message()}});
    } else if (removable.size() == kRemovedAtOnce) {
      Wake();  // there may be more
    }
  }
  if (undone) {
    again();
  } else {
    pool_delay_ = {};
  }
}

void Eraser::ForgetGone(const Pool& pool, const Catalog& catalog) {
  std::erase_if(work_, [&](const auto& entry) {
    return entry.second.pool == &pool && std::ranges::none_of(catalog.records, [&](const Record& record) {
             return IsErasing(record) && record.lv->uuid == entry.first;
           });
  });
}

bool Eraser::Proceed(Pool& pool, const Record& record, const std::stop_token& stop) {
  Work& work = work_[record.lv->uuid];
  work.pool = &pool;
  const SteadyTime now = std::chrono::steady_clock::now();
  if (work.erasure == nullptr) {
    if (now < work.retry_at) {
      NoLaterThan(work.retry_at);
      return false;
    }
    if (auto begun = Begin(pool, record, work, stop); !begun.has_value()) {
      PutOff(pool, record, work, begun.error());
      return false;
    }
  }
  if (!work.erasure->Finished()) {
    RecordProgress(pool, record, work, stop);
    return false;
  }
  if (const auto failure = work.erasure->Failure(); failure.has_value()) {
    work.cleared = work.erasure->Done();
    work.erasure = nullptr;
    PutOff(pool, record, work, *failure);
    return false;
  }
  return true;
}

void Eraser::PutOff(Pool& pool, const Record& record, Work& work, const Error& why) {
  work.delay = Longer(work.delay);
  work.retry_at = std::chrono::steady_clock::now() + work.delay;
  NoLaterThan(work.retry_at);
  if (why.code() != Code::kCancelled) {
    log_.Warning("a deleted volume could not be cleared away yet",
                 {{"pool", pool.config.name}, {"lv", record.lv->name}, {"error", why.message()}});
  }
}

Status Eraser::Begin(Pool& pool, const Record& record, Work& work, const std::stop_token& stop) {
  {
    const Call limited = Call{.stop = stop}.Within(kLvmLimit);
    QUARRY_ASSIGN(const auto turn, pool.writers.Wait("deactivating before erasing", limited));
    QUARRY_TRY(
        Execute({DeactivateAction{record.group->name, record.lv->name, record.DmUuids()}}, world_, limited));
  }
  QUARRY_ASSIGN(const Plan plan, PlanErase(record, PolicyOf(record)));
  std::vector<DiskPart> parts = PartsOf(plan);
  // What this process knows is newer than the tag; both are good for the same extents only.
  std::vector<Bytes> done =
      ParseProgress(parts, work.cleared.empty() ? record.tags.erased : ProgressText(parts, work.cleared));
  work.recorded = Sum(done);
  work.erasure = std::make_shared<Erasure>(record, PolicyOf(record), std::move(parts), std::move(done),
                                           world_.clock.Now());
  for (size_t part = 0; part < work.erasure->parts().size(); ++part) {
    QueueOf(work.erasure->parts()[part].device).Add(work.erasure, part);
  }
  return Ok();
}

// Best effort: without it, a restart only has more to do again.
void Eraser::RecordProgress(Pool& pool, const Record& record, Work& work, const std::stop_token& stop) {
  const std::vector<Bytes> done = work.erasure->Done();
  if (Sum(done) < work.recorded + kRecordEvery) {
    return;
  }
  work.recorded = Sum(done);
  const std::string tag = lvm::ErasedTag(ProgressText(work.erasure->parts(), done));
  const Catalog catalog = ReadCatalog(pool.config.name, record.group);
  if (tag.size() > kLongestTag || !CheckMetadataRoom(catalog, {2 * tag.size()}).has_value()) {
    return;
  }
  std::vector<std::string> old;
  if (!record.tags.erased.empty()) {
    old.push_back(lvm::ErasedTag(record.tags.erased));
  }
  const Call limited = Call{.stop = stop}.Within(kLvmLimit);
  const auto turn = pool.writers.Wait("recording how far erasing is", limited);
  const RetagAction retag{record.group->name, record.lv->name, {tag}, old};
  if (turn.has_value()) {
    (void)RunCounted(pool, {retag}, world_, limited);
  }
}

Status Eraser::Remove(Pool& pool, const std::vector<Record>& records, const std::stop_token& stop) {
  const Call limited = Call{.stop = stop}.Within(kLvmLimit);
  QUARRY_ASSIGN(const auto turn, pool.writers.Wait("removing erased volumes", limited));
  QUARRY_ASSIGN(const lvm::Snapshot now, world_.lvm.Read(pool.config.group, limited));
  RemoveLvAction remove{now->name, {}};
  std::vector<const Record*> going;
  for (const Record& record : records) {
    const lvm::LogicalVolume* lv = now->FindLv(record.lv->name);
    if (lv == nullptr || lv->uuid != record.lv->uuid) {
      work_.erase(record.lv->uuid);
      continue;
    }
    if (IsErasing(record)) {
      const Record& cleared = work_.at(record.lv->uuid).erasure->record();
      if (!LiesOnJust(*now, *lv, lvm::PhysicalExtents(*cleared.group, *cleared.lv))) {
        // It was moved to other extents while it was erased; these come next.
        work_.erase(record.lv->uuid);
        NoLaterThan(std::chrono::steady_clock::now() + kFirstRetry);
        continue;
      }
    } else if (BeingMade(pool, record) ||
               std::find(lv->tags.begin(), lv->tags.end(), lvm::kCreatingTag) == lv->tags.end()) {
      // Between the report and this turn a create may have finished: only what still bears the marker, and
      // that nobody is making, is left over.
      continue;
    }
    remove.names.push_back(record.lv->name);
    going.push_back(&record);
  }
  if (going.empty()) {
    return Ok();
  }
  pool.clean.Look(*now);
  QUARRY_TRY(RunCounted(pool, {remove}, world_, limited));
  for (const Record* record : going) {
    const auto work = work_.find(record->lv->uuid);
    if (work == work_.end()) {
      log_.Info("removed a half-made volume", {{"pool", pool.config.name}, {"lv", record->lv->name}});
      continue;
    }
    const Erasure& erasure = *work->second.erasure;
    if (erasure.policy() == ErasePolicy::kZero) {
      pool.clean.Add(lvm::PhysicalExtents(*erasure.record().group, *erasure.record().lv));
    }
    const auto elapsed = std::chrono::duration<double>(world_.clock.Now() - erasure.begun()).count();
    log_.Info("erased a deleted volume",
              {{"pool", pool.config.name}, {"lv", record->lv->name}, {"seconds", elapsed}});
    work_.erase(work);
  }
  return Ok();
}

}  // namespace quarry::engine
