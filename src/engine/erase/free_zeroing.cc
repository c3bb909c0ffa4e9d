#include "engine/erase/free_zeroing.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "engine/erase/holder.h"
#include "engine/model/failing_disks.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/zeroed_extents.h"
#include "engine/pool/pool.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

using std::chrono::minutes;

// What is held at a time: what takes about half a minute, and at most a quarter of the disk's free space,
// since other programs cannot use it meanwhile.
constexpr uint64_t kSecondsHeld = 30;
constexpr Bytes kMostHeld{4 * kGiB.value};
constexpr uint64_t kShareHeld = 4;
constexpr std::chrono::seconds kRest{30};
// How long callers do not try again to end a zeroing that could not be ended.
constexpr std::chrono::seconds kSkipped{60};
// How long a caller waits for the piece that is being written.
constexpr std::chrono::milliseconds kPieceLimit{10'000};
// How many changes of holders a reader's view of the group may be behind (Pool::free_zeroing).
constexpr size_t kNamesKept = 16;
constexpr minutes kFirstPutOff{1};
constexpr minutes kLastPutOff{60};

// Whether nobody is known to need the free space soon, and LVM accepts changes of the group. `current`: the
// range that is held; may be nullptr.
bool IsAtRest(const Catalog& catalog, const std::shared_ptr<Zeroing>& current) {
  const lvm::VolumeGroup& group = *catalog.group;
  const bool sound = group.MissingPvs() == 0 && group.max_lvs == 0 && catalog.weak.failing.empty() &&
                     std::ranges::none_of(group.pvs, IsEvacuating);
  return sound && std::ranges::all_of(catalog.records, [&](const Record& record) {
           return record.tags.state == lvm::VolumeState::kReady ||
                  (current != nullptr && record.lv->name == current->lv_name());
         });
}

// What a cancelled zeroing of one range has zeroed: the extents at its start.
std::vector<lvm::PhysicalRange> ZeroedOf(const Zeroing& zeroing) {
  const std::vector<Bytes> done = zeroing.work()->Done();
  if (zeroing.held().size() != 1 || done.size() != 1) {
    return {};
  }
  lvm::PhysicalRange range = zeroing.held().front();
  const uint64_t extent = zeroing.total().value / range.range.count.value;  // all of it is to be written
  range.range.count = {done.front().value / extent};
  return {range};
}

}  // namespace

std::shared_ptr<Zeroing> FreeZeroing::Current() const {
  const MutexLock lock(mutex_);
  return current_;
}

bool FreeZeroing::IsResting() const {
  const MutexLock lock(mutex_);
  return std::chrono::steady_clock::now() < rests_until_;
}

SteadyTime FreeZeroing::again_at() const {
  const MutexLock lock(mutex_);
  return std::max(again_at_, rests_until_);
}

void FreeZeroing::ComeAgain(SteadyTime when) {
  const MutexLock lock(mutex_);
  again_at_ = when;
}

Status FreeZeroing::GiveBack(const Call& call) {
  const std::shared_ptr<Zeroing> current = Current();
  if (current == nullptr) {
    return Ok();
  }
  if (!current->Finished()) {
    current->work()->Fail(Error(Code::kCancelled, "the space is needed"));
    nudge_();
    QUARRY_TRY(current->Wait(call.Within(kPieceLimit)));
  }
  QUARRY_ASSIGN(const bool held, GiveBackExtents(pool_, *current, world_, call));
  const std::optional<Error> failure = current->work()->Failure();
  if (held && failure.has_value() && failure->code() == Code::kCancelled) {
    pool_.clean.Add(ZeroedOf(*current));  // after the removal, and before the next look
  }
  const MutexLock lock(mutex_);
  current_ = nullptr;
  return Ok();
}

Status FreeZeroing::End(const Call& call) {
  const SteadyTime now = std::chrono::steady_clock::now();
  bool skip = false;
  {
    const MutexLock lock(mutex_);
    rests_until_ = now + kRest;
    skip = current_ != nullptr && now < skipped_until_;
  }
  if (!skip) {
    if (GiveBack(call).has_value()) {
      return Ok();
    }
    const MutexLock lock(mutex_);
    skipped_until_ = now + kSkipped;
  }
  const MutexLock lock(pool_.making_mutex);
  pool_.free_zeroing.clear();
  return Error(Code::kUnavailable, "some free space is still held because it was being zeroed; ask again");
}

bool FreeZeroing::IsInTheWay(const Catalog& catalog) const {
  const std::shared_ptr<Zeroing> current = Current();
  return current != nullptr && !IsAtRest(catalog, current);
}

std::optional<lvm::PhysicalRange> FreeZeroing::NextRange(const Catalog& catalog) {
  const lvm::VolumeGroup& group = *catalog.group;
  const uint64_t reserve = CeilToExtents(pool_.config.reserve, group.extent_size).value;
  const uint64_t spare = group.free_count.value - std::min(reserve, group.free_count.value);
  const uint64_t bytes = std::min(rate_.value, kMostHeld.value) * kSecondsHeld;
  const uint64_t most =
      std::min(spare, std::max(std::min(bytes, kMostHeld.value) / group.extent_size.value, uint64_t{1}));
  if (most == 0) {
    return std::nullopt;
  }
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const lvm::FreePv& pv : Without(lvm::FreeSpaceOf(group), Excluded(group, catalog.weak)).pvs) {
    if (const auto put_off = put_off_.find(pv.uuid);
        put_off != put_off_.end() && now < put_off->second.until) {
      continue;
    }
    uint64_t free = 0;
    std::vector<lvm::PhysicalRange> all;
    for (const lvm::ExtentRange& range : pv.free) {
      free += range.count.value;
      all.push_back({pv.uuid, range});
    }
    if (std::vector<lvm::PhysicalRange> unknown = pool_.clean.Unknown(all); !unknown.empty()) {
      lvm::PhysicalRange& range = unknown.front();
      const uint64_t share = std::max(free / kShareHeld, uint64_t{1});
      range.range.count = {std::min({range.range.count.value, most, share})};
      return range;
    }
  }
  return std::nullopt;
}

Result<std::shared_ptr<Zeroing>> FreeZeroing::Next(const Catalog& catalog, const Call& call) {
  const std::shared_ptr<Zeroing> nothing;
  const std::shared_ptr<Zeroing> seen = Current();
  const bool at_rest = IsAtRest(catalog, seen);
  ComeAgain(std::chrono::steady_clock::now() + kRest);
  if (seen == nullptr ? !at_rest || IsResting() : at_rest && !seen->Finished()) {
    return nothing;
  }
  QUARRY_ASSIGN(const auto turn, pool_.writers.Wait("zeroing free space", call));
  const std::shared_ptr<Zeroing> last = Current();
  QUARRY_TRY(GiveBack(call));
  if (IsResting()) {
    return nothing;  // a call has had the turn meanwhile
  }
  QUARRY_ASSIGN(const lvm::Snapshot now, world_.lvm.Read(pool_.config.group, call));
  Catalog present = ReadCatalog(pool_.config.name, now, &catalog);
  {
    const MutexLock lock(pool_.catalog_mutex);
    if (pool_.catalog_weak != nullptr) {
      present.weak = *pool_.catalog_weak;
    }
  }
  pool_.clean.Look(*now);
  const auto failure = last == nullptr ? std::nullopt : last->work()->Failure();
  if (failure.has_value() && failure->code() == Code::kUnavailable) {
    // Another process has taken or moved the holder, and may be at work in the group.
    const MutexLock lock(mutex_);
    rests_until_ = std::chrono::steady_clock::now() + kRest;
    return nothing;
  }
  if (failure.has_value() && failure->code() != Code::kCancelled) {
    PutOff& disk = put_off_[last->held().front().pv_uuid];
    disk.delay = std::clamp(disk.delay * 2, kFirstPutOff, kLastPutOff);
    disk.until = std::chrono::steady_clock::now() + disk.delay;
    return *failure;
  }
  if (!IsAtRest(present, nullptr)) {
    return nothing;
  }
  const auto range = NextRange(present);
  if (!range.has_value()) {
    ComeAgain(SteadyTime::max());  // all is zeroed
    return nothing;
  }
  QUARRY_ASSIGN(const lvm::Geometry linear, lvm::Geometry::Make({}));
  QUARRY_TRY(CheckMetadataRoom(present, MetadataForVolume(linear)));
  const Hold hold{.lv_name = lvm::NewLvName(), .held = {*range}, .cleared = {*range}, .to_write = {*range}};
  {
    const MutexLock lock(pool_.making_mutex);
    pool_.free_zeroing.push_back(hold.lv_name);
    if (pool_.free_zeroing.size() > kNamesKept) {
      pool_.free_zeroing.pop_front();
    }
  }
  auto held = HoldExtents(pool_, present, hold, world_, call);
  if (!held.has_value()) {
    const MutexLock lock(pool_.making_mutex);
    std::erase(pool_.free_zeroing, hold.lv_name);
    return held;
  }
  const MutexLock lock(mutex_);
  current_ = *held;
  return held;
}

}  // namespace quarry::engine
