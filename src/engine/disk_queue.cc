#include "engine/disk_queue.h"

#include <algorithm>

#include "engine/clean_space.h"

namespace quarry::engine {
namespace {

// Pieces under a rate: some four a second, so that others' requests come between them.
constexpr uint64_t kPiecesPerSecond = 4;
constexpr Bytes kLeastPiece{4 * kMiB.value};
constexpr std::chrono::milliseconds kReadLimit{60000};

Bytes MostAtOnce(Bytes rate) {
  return rate.value == 0
             ? kGiB
             : std::clamp(Bytes{rate.value / kPiecesPerSecond / kMiB.value * kMiB.value}, kLeastPiece, kGiB);
}

// Whether the extents are still those of the deleted volume. Somebody may have removed it by hand, or moved
// it, and others may have got the extents.
Status CheckStillThere(const World& world, const Record& record, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(record.group->name, call.Within(kReadLimit)));
  const lvm::LogicalVolume* lv = now->FindLv(record.lv->name);
  if (lv == nullptr || lv->uuid != record.lv->uuid ||
      !LiesOnJust(*now, *lv, lvm::PhysicalExtents(*record.group, *record.lv))) {
    return Error(Code::kUnavailable, "it was removed, or moved to other extents, while it was being erased");
  }
  const std::string erasing = lvm::StateTag(lvm::VolumeState::kErasing);
  if (std::ranges::find(lv->tags, erasing) == lv->tags.end()) {
    return Error(Code::kUnavailable, "it does not bear the tag of a deleted volume any more");
  }
  return Ok();
}

}  // namespace

DiskQueue::DiskQueue(World world, Bytes rate, std::function<void()> tell)
    : world_(world),
      rate_(rate),
      tell_(std::move(tell)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

DiskQueue::~DiskQueue() = default;  // jthread: asks to stop, then joins

void DiskQueue::Stop() {
  thread_.request_stop();
}

void DiskQueue::Add(std::shared_ptr<Erasure> erasure, size_t part) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(erasure), part});
  changed_.notify_all();
}

std::optional<std::chrono::duration<double>> DiskQueue::Expected() const {
  const std::lock_guard lock(mutex_);
  Bytes left;
  for (const Entry& entry : entries_) {
    left = left + (entry.erasure->parts()[entry.part].total() - entry.erasure->Done()[entry.part]);
  }
  if (left.value == 0) {
    return std::chrono::duration<double>(0);
  }
  if (speed_ <= 0) {
    return std::nullopt;
  }
  return std::chrono::duration<double>(static_cast<double>(left.value) / speed_);
}

void DiskQueue::Run(const std::stop_token& stop) {
  while (true) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !entries_.empty(); }) || stop.stop_requested()) {
        return;
      }
      entry = entries_.front();
    }
    Clear(entry, stop);
    if (stop.stop_requested()) {
      return;  // neither done nor failed
    }
    {
      const std::lock_guard lock(mutex_);
      entries_.pop_front();
    }
    entry.erasure->Leave();
    tell_();
  }
}

void DiskQueue::Clear(const Entry& entry, const std::stop_token& stop) {
  const Bytes most = MostAtOnce(rate_);
  const Call call{.stop = stop};
  while (!stop.stop_requested()) {
    const auto piece = entry.erasure->Next(entry.part, most);
    if (!piece.has_value()) {
      return;
    }
    const SteadyTime begun = std::chrono::steady_clock::now();
    auto done = CheckStillThere(world_, entry.erasure->record(), call);
    if (done.has_value()) {
      done = Execute({*piece}, world_, call);
    }
    if (!done.has_value()) {
      entry.erasure->Fail(std::move(done.error()));
      return;
    }
    entry.erasure->Advance(entry.part, piece->range.length);
    untold_ = untold_ + piece->range.length;
    if (untold_ >= kTold) {
      untold_ = {};
      tell_();
    }
    Pace(piece->range.length, begun, stop);
  }
}

void DiskQueue::Pace(Bytes cleared, SteadyTime begun, const std::stop_token& stop) {
  using Seconds = std::chrono::duration<double>;
  std::unique_lock lock(mutex_);
  if (rate_.value != 0) {
    const auto until = begun + std::chrono::duration_cast<SteadyTime::duration>(Seconds(
                                   static_cast<double>(cleared.value) / static_cast<double>(rate_.value)));
    changed_.wait_until(lock, stop, until, [] { return false; });
  }
  const double took = std::max(Seconds(std::chrono::steady_clock::now() - begun).count(), 1e-6);
  const double speed = static_cast<double>(cleared.value) / took;
  speed_ = speed_ <= 0 ? speed : (speed_ + speed) / 2;
}

}  // namespace quarry::engine
