#include "engine/erase/eraser.h"

#include <chrono>

#include <fmt/format.h>

#include "engine/erase/zero_before_use.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_cow.h"
#include "engine/plan/plan_volume.h"
#include "engine/plan/zeroed_extents.h"
#include "engine/pool/node.h"
#include "engine/pool/reload.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{2000};
constexpr milliseconds kLastRetry{60000};
// A round runs at least this often. An LVM command may outlive the quarryd that started it, and create an
// unfinished volume after the next quarryd has removed all that it found at its start.
constexpr std::chrono::minutes kLookAnyway{5};
constexpr std::chrono::seconds kLookAtQueues{10};
constexpr milliseconds kReadLimit{60000};
constexpr milliseconds kStopLimit{5000};
constexpr milliseconds kLvmLimit{120000};
// The progress of a volume is recorded each time this many more bytes are erased. Each record costs a commit.
constexpr Bytes kRecordEvery = DiskQueue::kTold;
// LVM's limit for a tag.
constexpr size_t kLongestTag = 1024;
// One command removes at most this many volumes. It holds LVM's lock until all of them are removed, and
// kLvmLimit applies to the whole command.
constexpr size_t kRemovedAtOnce = 40;

milliseconds Longer(milliseconds delay) {
  return std::clamp(delay * 2, kFirstRetry, kLastRetry);
}

// Whether this process still makes the volume, or fills it with a copy of another one, or may be asked to go
// on with the copy. The latter ends here, so that nobody goes on with what is being erased.
bool BeingMade(Pool& pool, const Record& record) {
  const MutexLock lock(pool.making_mutex);
  if (!IsErasing(record)) {
    return pool.making.contains(record.lv->name);
  }
  const auto unfinished = pool.unfinished.find(record.lv->name);
  if (unfinished != pool.unfinished.end() && unfinished->second <= std::chrono::steady_clock::now()) {
    pool.unfinished.erase(unfinished);
  }
  return pool.copying.contains(record.lv->name) || pool.unfinished.contains(record.lv->name);
}

// Whether this process makes it, in whatever state it is by now.
bool IsCopying(Pool& pool, const Record& record) {
  const MutexLock lock(pool.making_mutex);
  return pool.copying.contains(record.lv->name);
}

Bytes Sum(const std::vector<Bytes>& sizes) {
  Bytes sum;
  for (const Bytes size : sizes) {
    sum = sum + size;
  }
  return sum;
}

// Where a range of extents lies on its disk; nullopt: the disk is missing.
std::optional<dm::EraseRange> PlaceOf(const lvm::VolumeGroup& group, const lvm::PhysicalRange& range) {
  const lvm::PhysicalVolume* const pv = group.FindPv(range.pv_uuid);
  if (pv == nullptr || pv->missing || pv->device.empty()) {
    return std::nullopt;
  }
  return dm::EraseRange{.device = pv->device,
                        .pv_uuid = pv->uuid,
                        .offset = pv->pe_start + ToBytes(range.range.first, group.extent_size),
                        .length = ToBytes(range.range.count, group.extent_size)};
}

// Whether the superblock at `place` is within the bytes of its disk that are erased already.
bool IsDone(const std::vector<DiskPart>& parts, const std::vector<Bytes>& done, const dm::EraseRange& place) {
  for (size_t i = 0; i < parts.size(); ++i) {
    Bytes before;
    for (const EraseAction& piece : parts[i].pieces) {
      const dm::EraseRange& range = piece.range;
      const Bytes end = place.offset + Bytes{dm::kRaidSuperblock};
      if (parts[i].pv_uuid == place.pv_uuid && range.offset <= place.offset &&
          end <= range.offset + range.length) {
        return before + (end - range.offset) <= done[i];
      }
      before = before + range.length;
    }
  }
  return false;
}

// Whether the erased superblocks of a RAID volume still read as zeroes. If an administrator activates a RAID
// volume that is being erased, the kernel writes new superblocks, and then copies legs that are not erased
// over legs that are. False also while only some superblocks are erased, because then nothing shows an
// activation. True if nothing is erased yet, for volumes without RAID, whose legs are never filled from each
// other, and for discards, whose result is not known.
bool SuperblocksStayedClear(const World& world, const Record& record, const std::vector<DiskPart>& parts,
                            const std::vector<Bytes>& done) {
  if (PolicyOf(record) != ErasePolicy::kZero || Sum(done) == Bytes{} || record.lv->segments.empty()) {
    return true;
  }
  const lvm::VolumeGroup& group = *record.group;
  for (const lvm::SegmentArea& area : record.lv->segments.front().areas) {
    const lvm::LogicalVolume* const metadata = group.FindLv(lvm::MetadataLvName(area.lv_name));
    for (const lvm::PhysicalRange& range :
         metadata == nullptr ? std::vector<lvm::PhysicalRange>() : lvm::PhysicalExtents(group, *metadata)) {
      if (group.LacksPv(range.pv_uuid)) {
        continue;  // the disk was given up; otherwise the volume would not have been erased
      }
      const auto place = PlaceOf(group, range);
      if (!place.has_value() || !IsDone(parts, done, *place)) {
        return false;
      }
      const auto word = world.raid_legs.Read(*place);
      if (word.has_value() || word.error().code() != Code::kNotFound) {
        return false;
      }
    }
  }
  return true;
}

// Whether the record is the leader of a group snapshot that has a ready member.
bool LeadsReady(const Catalog& catalog, const Record& record) {
  return std::ranges::any_of(catalog.records, [&](const Record& other) {
    return other.lv->uuid != record.lv->uuid && !other.tags.group.empty() &&
           other.tags.state == lvm::VolumeState::kReady && LeaderOf(other.tags.group) == record.tags.id;
  });
}

bool HasTakenOut(const Catalog& catalog, const Record& record) {
  return std::ranges::find(catalog.taken_out, record.lv->name, &TakenOut::volume) != catalog.taken_out.end();
}

}  // namespace

Eraser::Eraser(Pool& pool, World world, const Logger& log, DiskQueue::Rates rates)
    : pool_(pool),
      world_(world),
      log_(log),
      rates_(rates),
      free_zeroing_(pool, world, rates.idle, [this] { NudgeQueues(); }),
      pool_delay_(0),
      unread_(log, pool.config.name,
              {.fails = "the eraser cannot read a volume group",
               .recovered = "the eraser can read a volume group again"}),
      unerased_(log, pool.config.name,
                {.fails = "a deleted volume could not be erased yet",
                 .recovered = "a deleted volume was erased after failed attempts"}),
      unremoved_(log, pool.config.name,
                 {.fails = "deleted or unfinished volumes could not be removed yet",
                  .recovered = "deleted or unfinished volumes can be removed again"}),
      unremovable_(log, pool.config.name,
                   {.fails = "a deleted or unfinished volume cannot be removed",
                    .recovered = "a deleted or unfinished volume can be removed again"}),
      untagged_(log, pool.config.name,
                {.fails = "a leg that an LVM conversion took out of a deleted volume cannot be erased yet",
                 .recovered = "a leg that an LVM conversion took out of a deleted volume can be erased"}),
      unended_(log, pool.config.name,
               {.fails = "a member of a group snapshot that was not finished cannot be removed yet",
                .recovered = "a member of a group snapshot that was not finished was removed"}),
      unreturned_(log, pool.config.name,
                  {.fails = "zeroed space could not be given back to the volume group yet",
                   .recovered = "zeroed space was given back to the volume group after failed attempts"}),
      unzeroed_(
          log, pool.config.name,
          {.fails = "free space cannot be zeroed now", .recovered = "free space is being zeroed again"}) {}

void Eraser::Start() {
  const MutexLock life(life_mutex_);
  if (!stopped_ && !thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
}

void Eraser::Stop() {
  const MutexLock life(life_mutex_);
  if (!std::exchange(stopped_, true) && rates_.idle.value != 0 && thread_.joinable()) {
    // The space is given back now, so that what is known to be zeroed stays known over an orderly restart.
    // What cannot be given back is removed by the next start.
    const auto turn = pool_.writers.Wait("stopping", CallWithin(kStopLimit));
    if (turn.has_value()) {
      (void)free_zeroing_.End(CallWithin(kStopLimit));
    }
  }
  thread_.request_stop();
  std::map<std::string, std::unique_ptr<DiskQueue>> queues;
  {
    const MutexLock lock(mutex_);
    for (const auto& [device, queue] : queues_) {
      queue->Stop();  // all stop at the same time; then each destructor waits for its thread
    }
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  const MutexLock lock(mutex_);
  queues.swap(queues_);
}

void Eraser::NudgeQueues() {
  const MutexLock lock(mutex_);
  for (const auto& [device, queue] : queues_) {
    queue->Nudge();
  }
}

void Eraser::Wake() {
  const MutexLock lock(mutex_);
  woken_ = true;
  wake_.notify_all();
}

void Eraser::GiveUp(const std::set<std::string>& pvs, const std::set<std::string>& away) {
  const MutexLock lock(mutex_);
  std::erase_if(given_up_, [&](const std::string& pv) { return !away.contains(pv); });
  const size_t before = given_up_.size();
  given_up_.insert(pvs.begin(), pvs.end());
  if (given_up_.size() > before) {
    woken_ = true;
    wake_.notify_all();
  }
}

void Eraser::TakeGivenUp(const lvm::VolumeGroup& group) {
  const std::set<std::string> before = std::move(lost_);
  {
    const MutexLock lock(mutex_);
    std::erase_if(given_up_, [&](const std::string& pv) { return !IsAway(group, pv); });
    lost_ = given_up_;
  }
  if (!std::ranges::includes(before, lost_)) {
    for (auto& [uuid, work] : work_) {
      work.retry_at = {};
    }
  }
}

std::optional<std::chrono::seconds> Eraser::Expected(const lvm::VolumeGroup& group) const {
  const MutexLock lock(mutex_);
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
  const MutexLock lock(mutex_);
  std::unique_ptr<DiskQueue>& queue = queues_[device];
  if (queue == nullptr) {
    queue = std::make_unique<DiskQueue>(world_, log_, rates_, [this] { Wake(); });
  }
  return *queue;
}

void Eraser::Clear(const Zeroing& extents, DiskQueue::Haste haste) {
  const std::shared_ptr<EraseJob>& job = extents.work();
  for (size_t part = 0; part < job->parts().size(); ++part) {
    QueueOf(job->parts()[part].device).Add(job, part, haste);
  }
  Wake();
}

std::string Eraser::Stuck() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> stuck;
  for (const auto& [device, queue] : queues_) {
    if (auto words = queue->Stuck(); words.has_value()) {
      stuck.push_back(std::move(*words));
    }
  }
  return fmt::format("{}", fmt::join(stuck, "; "));
}

void Eraser::TellOfStuck() {
  const MutexLock lock(mutex_);
  for (const auto& [device, queue] : queues_) {
    if (const auto words = queue->NewlyStuck(); words.has_value()) {
      log_.Warning(*words, {{"pool", pool_.config.name}, {"device", device}});
    }
  }
}

bool Eraser::WaitForWork(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const bool writing =
      std::ranges::any_of(queues_, [](const auto& entry) { return entry.second->IsWriting(); });
  const SteadyTime look = std::chrono::steady_clock::now() + kLookAtQueues;
  wake_.wait_until(lock, stop, writing ? std::min(next_round_, look) : next_round_,
                   [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return woken_; });
  return std::exchange(woken_, false) || std::chrono::steady_clock::now() >= next_round_;
}

void Eraser::Run(const std::stop_token& stop) {
  next_round_ = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    const bool due = WaitForWork(stop);
    TellOfStuck();
    if (due && !stop.stop_requested()) {
      next_round_ = std::chrono::steady_clock::now() + kLookAnyway;
      Round(stop);
    }
  }
}

void Eraser::Round(const std::stop_token& stop) {
  const auto again = [&] {
    pool_delay_ = Longer(pool_delay_);
    NoLaterThan(std::chrono::steady_clock::now() + pool_delay_);
  };
  auto group = world_.lvm.Read(pool_.config.group, Call{.stop = stop}.Within(kReadLimit));
  if (!stop.stop_requested()) {
    unread_.Note("", group.has_value() ? Ok() : Status(group.error()));
  }
  if (!group.has_value()) {
    again();
    return;
  }
  bool undone =
      SweepZeroings(pool_, zeroings_, **group, world_, unreturned_, Call{.stop = stop}.Within(kLvmLimit));
  const Catalog catalog = ReadCatalog(pool_.config.name, *group);
  TakeGivenUp(**group);
  ForgetGone(catalog);
  undone = EndTakenOut(catalog, stop) || undone;
  undone = EndUnfinished(catalog, stop) || undone;
  {
    const MutexLock lock(pool_.making_mutex);
    for (const auto& [name, until] : pool_.unfinished) {
      NoLaterThan(until);
    }
  }
  // LVM commits once for all volumes of a command, but twice for each thin one.
  std::vector<Record> removable;
  std::vector<Record> removable_thin;
  for (const Record& record : catalog.records) {
    if (stop.stop_requested()) {
      return;
    }
    // The leader of a group goes last: without it, the other members would be snapshots as any.
    if (BeingMade(pool_, record) || (IsErasing(record) && LeadsReady(catalog, record))) {
      continue;
    }
    const bool left_over = record.tags.state == lvm::VolumeState::kCreating;
    const bool ready =
        left_over || (IsErasing(record) && Proceed(record, stop) && !HasTakenOut(catalog, record));
    std::vector<Record>& list = IsInPool(record) ? removable_thin : removable;
    if (ready && list.size() < kRemovedAtOnce && RemovesAlone(**group, record)) {
      list.push_back(record);
    }
  }
  if (removable.empty() && removable_thin.empty()) {
    unremoved_.Forget([](const std::string&) { return true; });  // no volume is left to remove
  }
  for (const std::vector<Record>* const list : {&removable, &removable_thin}) {
    if (list->empty()) {
      continue;
    }
    const Result<bool> removed = Remove(*list, stop);
    if (!stop.stop_requested() && (!removed.has_value() || *removed)) {
      unremoved_.Note("", removed.has_value() ? Ok() : Status(removed.error()));
    }
    if (!removed.has_value() && !stop.stop_requested()) {
      undone = true;
    } else if (list->size() == kRemovedAtOnce && *removed) {
      Wake();  // there may be more
    }
  }
  if (undone) {
    again();
  } else {
    pool_delay_ = {};
  }
  if (rates_.idle.value != 0 && !stop.stop_requested()) {
    ZeroFree(catalog, stop);
  }
}

void Eraser::ZeroFree(const Catalog& catalog, const std::stop_token& stop) {
  const auto next = free_zeroing_.Next(catalog, Call{.stop = stop}.Within(kLvmLimit));
  if (stop.stop_requested()) {
    return;
  }
  unzeroed_.Note("", next.has_value() ? Ok() : Status(next.error()));
  if (!next.has_value()) {
    NoLaterThan(std::chrono::steady_clock::now() + kLastRetry);
  } else if (*next != nullptr) {
    Clear(**next, DiskQueue::Haste::kIdle);
  } else {
    NoLaterThan(free_zeroing_.again_at());
  }
}

// Only the deleted volume proves where the legs that a conversion took out come from. So each leg gets a tag
// of its own before the volume is removed.
bool Eraser::EndTakenOut(const Catalog& catalog, const std::stop_token& stop) {
  bool any = false;
  for (const Record& record : catalog.records) {
    if (!IsErasing(record) || !HasTakenOut(catalog, record)) {
      continue;
    }
    any = true;
    const Call limited = Call{.stop = stop}.Within(kLvmLimit);
    const Status done = TagTakenOut(record, limited);
    if (!stop.stop_requested()) {
      untagged_.Note(record.lv->name, done);
    }
  }
  return any;
}

Status Eraser::TagTakenOut(const Record& record, const Call& limited) {
  QUARRY_ASSIGN(const auto turn, pool_.writers.Wait("tagging legs that a conversion left", limited));
  // The group may have changed before this turn: another logical volume may have the name of a leg by now.
  QUARRY_ASSIGN(const lvm::Snapshot now, world_.lvm.Read(record.group->name, limited));
  const Catalog catalog = ReadCatalog(pool_.config.name, now);
  const auto same = std::ranges::find_if(catalog.records,
                                         [&](const Record& one) { return one.lv->uuid == record.lv->uuid; });
  if (same == catalog.records.end() || !IsErasing(*same)) {
    return Ok();
  }
  Status first = Ok();
  for (const TakenOut& taken : catalog.taken_out) {
    if (taken.volume == same->lv->name) {
      Status done = RunCounted(pool_, PlanEndOf(catalog, taken), world_, limited);
      first = first.has_value() ? std::move(done) : first;
    }
  }
  return first;
}

void Eraser::ForgetGone(const Catalog& catalog) {
  const auto gone = [&](const std::string& lv) {
    return !lv.empty() && catalog.group->FindLv(lv) == nullptr;
  };
  for (FailureLog* const failures : {&unerased_, &unremovable_, &untagged_, &unended_, &unreturned_}) {
    failures->Forget(gone);
  }
  std::erase_if(work_, [&](const auto& entry) {
    return std::ranges::none_of(catalog.records, [&](const Record& record) {
      return IsErasing(record) && record.lv->uuid == entry.first;
    });
  });
}

bool Eraser::Proceed(const Record& record, const std::stop_token& stop) {
  Work& work = work_[record.lv->uuid];
  if (std::chrono::steady_clock::now() < work.retry_at) {
    NoLaterThan(work.retry_at);
    return false;
  }
  if (work.erasure == nullptr) {
    if (auto begun = Begin(record, work, stop); !begun.has_value()) {
      PutOff(record, work, begun.error());
      return false;
    }
  }
  if (!work.erasure->Finished()) {
    if (!record.tags.thin) {
      RecordProgress(record, work, stop);
    }
    return false;
  }
  if (const auto failure = work.erasure->Failure(); failure.has_value()) {
    work.erasure = nullptr;
    if (failure->code() != Code::kTimeout) {
      work.thin = {};
    }
    PutOff(record, work, *failure);
    return false;
  }
  unerased_.Note(record.lv->name, Ok());
  NoteErased(work.thin);
  if (record.tags.thin && !work.thin.whole) {
    work.erasure = nullptr;  // goes on behind what is done
    Wake();
    return false;
  }
  return true;
}

void Eraser::PutOff(const Record& record, Work& work, const Error& why) {
  work.delay = Longer(work.delay);
  work.retry_at = std::chrono::steady_clock::now() + work.delay;
  NoLaterThan(work.retry_at);
  if (why.code() != Code::kCancelled) {
    unerased_.Note(record.lv->name, why);
  }
}

Result<lvm::Snapshot> Eraser::EndKeeping(const Record& store, const Call& limited) {
  const lvm::LogicalVolume* const kept = KeptVolume(store);
  if (kept == nullptr) {
    return store.group;
  }
  // A command that has hardly begun would be killed, and leave the volume suspended.
  QUARRY_TRY(limited.Check("separating a store"));
  QUARRY_TRY(engine::EndKeeping(pool_, world_, log_, store, *kept, lost_, limited));
  return world_.lvm.Read(store.group->name, limited);
}

Status Eraser::Begin(const Record& record, Work& work, const std::stop_token& stop) {
  const Call limited = Call{.stop = stop}.Within(kLvmLimit);
  QUARRY_ASSIGN(const auto turn, pool_.writers.Wait("deactivating before erasing", limited));
  // The group may have changed before this turn.
  QUARRY_ASSIGN(lvm::Snapshot now, world_.lvm.Read(record.group->name, limited));
  const lvm::LogicalVolume* lv = now->FindLv(record.lv->name);
  if (lv != nullptr && lv->uuid == record.lv->uuid && record.tags.cow && !BeingMade(pool_, record)) {
    QUARRY_ASSIGN(now, EndKeeping(Record(record.pool, now, lv, record.tags), limited));
    lv = now->FindLv(record.lv->name);
    if (lv == nullptr) {
      return Error(Code::kCancelled, "the store was removed with its missing disk");
    }
  }
  if (lv == nullptr || lv->uuid != record.lv->uuid) {
    return Error(Code::kUnavailable, "another process has removed or renamed the logical volume");
  }
  // A copy may have become ready since the round began.
  if (std::ranges::find(lv->tags, lvm::StateTag(lvm::VolumeState::kErasing)) == lv->tags.end()) {
    return Error(Code::kCancelled, "the logical volume is not deleted");
  }
  const Record current(record.pool, now, lv, record.tags);
  if (current.tags.thin) {
    return BeginThin(current, work, limited);
  }
  // This check precedes the deactivation: if an administrator is moving the volume, deactivating it would
  // abort the move.
  QUARRY_TRY(CheckAlone(current));
  QUARRY_ASSIGN(std::vector<lvm::PhysicalRange> extents, lvm::OwnedExtents(*now, *lv));
  bool was_active = false;
  for (const std::string& uuid : current.DmUuids()) {
    const auto device = world_.dm.Find(uuid);
    was_active = was_active || !device.has_value() || device->has_value();
  }
  QUARRY_TRY(Execute({DeactivateAction{now->name, lv->name, current.DmUuids()}}, world_, limited));
  if (!current.tags.copying.empty()) {  // from here on no process goes on with this copy
    const lvm::ChangeTags retag{now->name, lv->name, {}, {lvm::CopyingTag(current.tags.copying)}};
    QUARRY_TRY(RunCounted(pool_, {retag}, world_, limited));
  }
  if (current.tags.cow) {
    DropDevicesOfStore(world_, current, limited);
  }
  QUARRY_ASSIGN(const Plan plan, PlanErase(current, PolicyOf(current), lost_));
  std::vector<DiskPart> parts = PartsOf(plan);
  // The tag's digest shows for which extents the progress is valid. A volume that was active starts again
  // from the beginning: the kernel may have copied a leg that is not erased over one that is.
  std::vector<Bytes> done = ParseProgress(parts, was_active ? std::string() : current.tags.erased);
  if (!SuperblocksStayedClear(world_, current, parts, done)) {
    done.assign(parts.size(), Bytes{});
  }
  work.recorded = Sum(done);
  work.erasure = std::make_shared<EraseJob>(OwnerOf(*now, *lv, lvm::StateTag(lvm::VolumeState::kErasing)),
                                            WithoutLost(*now, std::move(extents), lost_), std::move(parts),
                                            std::move(done), world_.clock.Now());
  for (size_t part = 0; part < work.erasure->parts().size(); ++part) {
    QueueOf(work.erasure->parts()[part].device).Add(work.erasure, part, DiskQueue::Haste::kNone);
  }
  return Ok();
}

// A failure is ignored. Without the record, a restart erases more bytes a second time.
void Eraser::RecordProgress(const Record& record, Work& work, const std::stop_token& stop) {
  const std::vector<Bytes> done = work.erasure->Done();
  if (Sum(done) < work.recorded + kRecordEvery) {
    return;
  }
  work.recorded = Sum(done);
  const std::string tag = lvm::ErasedTag(ProgressText(work.erasure->parts(), done));
  const Catalog catalog = ReadCatalog(pool_.config.name, record.group);
  if (tag.size() > kLongestTag || !CheckMetadataRoom(catalog, {2 * tag.size()}).has_value()) {
    return;
  }
  std::vector<std::string> old;
  if (!record.tags.erased.empty()) {
    old.push_back(lvm::ErasedTag(record.tags.erased));
  }
  const Call limited = Call{.stop = stop}.Within(kLvmLimit);
  const auto turn = pool_.writers.Wait("recording erase progress", limited);
  const lvm::ChangeTags retag{record.group->name, record.lv->name, {tag}, old};
  if (turn.has_value()) {
    (void)RunCounted(pool_, {retag}, world_, limited);
  }
}

Status Eraser::BeginThin(const Record& current, Work& work, const Call& limited) {
  QUARRY_TRY(BeginThinErasure(current, work.thin, world_, limited));
  work.erasure = work.thin.job;
  if (work.erasure->parts().empty()) {
    Wake();  // nothing is mapped: it can go
    return Ok();
  }
  QueueOf(work.erasure->parts().front().device).Add(work.erasure, 0, DiskQueue::Haste::kNone);
  return Ok();
}

bool Eraser::MayThinGo(const Record& current, const Call& limited) {
  Work& work = work_.at(current.lv->uuid);
  const Result<bool> may = engine::MayThinGo(current, work.thin, world_, limited);
  if (may.has_value() && *may) {
    return true;
  }
  work.erasure = nullptr;
  if (may.has_value() && work.thin.in_store) {
    Wake();  // more is the volume's alone by now
    return false;
  }
  if (!may.has_value() && may.error().code() == Code::kTimeout) {
    PutOff(current, work, may.error());  // what is erased stays erased
    return false;
  }
  if (may.has_value()) {
    log_.Warning("a deleted volume was written to during its erasure: it is erased again",
                 {{"pool", pool_.config.name}, {"lv", current.lv->name}});
  }
  work.thin = {};
  PutOff(current, work, may.has_value() ? Error(Code::kCancelled, "it is erased again") : may.error());
  return false;
}

bool Eraser::SharesChunks(const Record& record) const {
  const auto work = work_.find(record.lv->uuid);
  return work != work_.end() && work->second.thin.in_store;
}

bool Eraser::EndUnfinished(const Catalog& catalog, const std::stop_token& stop) {
  bool any = false;
  for (const Record& record : catalog.records) {
    if (!IsUnfinished(catalog, record) || IsCopying(pool_, record)) {
      continue;
    }
    any = true;
    const Call limited = Call{.stop = stop}.Within(kLvmLimit);
    const Status done = EndMember(record, limited);
    if (!stop.stop_requested()) {
      unended_.Note(record.lv->name, done);
    }
  }
  return any;
}

Status Eraser::EndMember(const Record& record, const Call& limited) {
  QUARRY_ASSIGN(const auto turn, pool_.writers.Wait("ending an unfinished group snapshot", limited));
  QUARRY_ASSIGN(const lvm::Snapshot now, world_.lvm.Read(record.group->name, limited));
  const Catalog catalog = ReadCatalog(pool_.config.name, now);
  const Record* const same = catalog.ByUuid(record.lv->uuid);
  if (same == nullptr || !IsUnfinished(catalog, *same)) {
    return Ok();
  }
  QUARRY_TRY(CheckAlone(*same));
  return RunCounted(pool_, PlanDelete(*same, ErasePolicy::kZero), world_, limited);
}

bool Eraser::MayGo(const lvm::Snapshot& now, const lvm::LogicalVolume& lv, const Record& record,
                   const Call& limited) {
  Work& work = work_.at(lv.uuid);
  if (record.tags.thin) {
    return MayThinGo(Record(record.pool, now, &lv, record.tags), limited);
  }
  auto owned = lvm::OwnedExtents(*now, lv);
  if (!owned.has_value()) {  // lvremove would also remove what another program put on the volume
    work.erasure = nullptr;  // that program may have written there meanwhile
    PutOff(record, work, owned.error());
    return false;
  }
  if (ByPv(WithoutLost(*now, *std::move(owned), lost_)) != ByPv(work.erasure->extents())) {
    // The volume was moved during the erasure, or a given-up disk has returned. The work begins again, with
    // the extents that the volume has now.
    work_.erase(lv.uuid);
    NoLaterThan(std::chrono::steady_clock::now() + kFirstRetry);
    return false;
  }
  const Record current(record.pool, now, &lv, record.tags);
  if (!SuperblocksStayedClear(world_, current, work.erasure->parts(), work.erasure->Done())) {
    log_.Warning("a deleted volume was activated during its erasure: it is erased again from the beginning",
                 {{"pool", pool_.config.name}, {"lv", lv.name}});
    work_.erase(lv.uuid);
    NoLaterThan(std::chrono::steady_clock::now() + kFirstRetry);
    return false;
  }
  return true;
}

Result<bool> Eraser::Remove(const std::vector<Record>& records, const std::stop_token& stop) {
  const Call limited = Call{.stop = stop}.Within(kLvmLimit);
  QUARRY_ASSIGN(const auto turn, pool_.writers.Wait("removing erased volumes", limited));
  QUARRY_ASSIGN(const lvm::Snapshot now, world_.lvm.Read(pool_.config.group, limited));
  RemoveLvAction remove{
      .group = now->name, .names = {}, .seqno = now->seqno, .thin = IsInPool(records.front())};
  const Catalog catalog = ReadCatalog(pool_.config.name, now);
  std::vector<const Record*> going;
  bool shares = false;  // whether one of them shares, or shared, chunks with others
  for (const Record& record : records) {
    const lvm::LogicalVolume* lv = now->FindLv(record.lv->name);
    if (lv == nullptr || lv->uuid != record.lv->uuid) {
      work_.erase(record.lv->uuid);
      continue;
    }
    // Before this turn, a create may have finished, or an administrator may have reused a logical volume.
    // Only a logical volume that still carries the tag, and that no create is making, is removed.
    const std::string tag =
        IsErasing(record) ? lvm::StateTag(lvm::VolumeState::kErasing) : std::string(lvm::kCreatingTag);
    if (std::ranges::find(lv->tags, tag) == lv->tags.end() || BeingMade(pool_, record) ||
        LeadsReady(catalog, record)) {
      continue;
    }
    // Of two that share chunks, neither has them alone. So the second is looked at again when the first is
    // gone.
    if (shares && SharesChunks(record)) {
      Wake();
      continue;
    }
    if (IsErasing(record) && !MayGo(now, *lv, record, limited)) {
      continue;
    }
    if (!RemovesAlone(*now, record)) {
      continue;
    }
    shares = shares || SharesChunks(record);
    remove.names.push_back(record.lv->name);
    going.push_back(&record);
  }
  if (going.empty()) {
    return false;
  }
  pool_.clean.Look(*now);
  const Status done = RunCounted(pool_, {remove}, world_, limited);
  if (!done.has_value()) {
    // Some may be gone all the same.
    const auto after = world_.lvm.Read(pool_.config.group, limited);
    std::erase_if(going, [&](const Record* record) {
      return !after.has_value() || (*after)->FindLv(record->lv->name) != nullptr;
    });
  }
  for (const Record* record : going) {
    const auto work = work_.find(record->lv->uuid);
    if (work == work_.end()) {
      log_.Info("removed an unfinished volume", {{"pool", pool_.config.name}, {"lv", record->lv->name}});
      continue;
    }
    const EraseJob& erasure = *work->second.erasure;
    if (record->lv->partial) {
      log_.Warning("part of a deleted volume was not erased: it lies on a missing disk that was given up",
                   {{"pool", pool_.config.name}, {"lv", record->lv->name}});
    }
    if (PolicyOf(*record) == ErasePolicy::kZero && done.has_value() && !record->tags.thin) {
      std::vector<lvm::PhysicalRange> cleared = erasure.extents();
      std::erase_if(cleared, [&](const auto& range) { return now->LacksPv(range.pv_uuid); });
      pool_.clean.Add(cleared);
    }
    const auto elapsed = std::chrono::duration<double>(world_.clock.Now() - erasure.begun()).count();
    log_.Info("erased a deleted volume",
              {{"pool", pool_.config.name}, {"lv", record->lv->name}, {"seconds", elapsed}});
    work_.erase(work);
  }
  QUARRY_TRY(done);
  return true;
}

bool Eraser::RemovesAlone(const lvm::VolumeGroup& group, const Record& record) {
  const lvm::LogicalVolume* const lv = group.FindLv(record.lv->name);
  const Status alone = lv == nullptr ? Ok() : lvm::RemovesAlone(group, *lv);
  unremovable_.Note(record.lv->name, alone);
  if (!alone.has_value()) {
    NoLaterThan(std::chrono::steady_clock::now() + kLastRetry);
  }
  return alone.has_value();
}

Erasers::Erasers(Node& node) {
  for (const auto& pool : node.pools) {
    erasers_.try_emplace(pool.get(), *pool, node.world, node.log,
                         DiskQueue::Rates{.all = node.config.erase_rate, .idle = node.config.zero_free_rate});
  }
}

void Erasers::Stop() {
  std::vector<std::jthread> ends;
  for (auto& entry : erasers_) {
    ends.emplace_back([&eraser = entry.second] { eraser.Stop(); });
  }
}

}  // namespace quarry::engine
