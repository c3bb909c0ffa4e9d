#include "engine/erase/disk_queue.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/plan/proven_write.h"

namespace quarry::engine {
namespace {

using Seconds = std::chrono::duration<double>;

// Under a rate limit: about four pieces a second, so that other requests get between them.
constexpr uint64_t kPiecesPerSecond = 4;
// A piece takes about half a second. Meanwhile, LVM commands that change the group or activate its volumes
// wait for the lock. Commands that only read wait only if they come after such a command.
constexpr double kPieceSeconds = 0.5;
constexpr Bytes kFirstPiece{16 * kMiB.value};  // while the speed of the disk is not known
constexpr std::chrono::seconds kStuckAfter{5};
constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{30'000};

}  // namespace

DiskQueue::DiskQueue(World world, const Logger& log, Rates rates, std::function<void()> tell)
    : world_(world),
      log_(log),
      rates_(rates),
      tell_(std::move(tell)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void DiskQueue::Add(std::shared_ptr<EraseJob> erasure, size_t part, Haste haste) {
  const MutexLock lock(mutex_);
  entries_.push_back({std::move(erasure), part, haste});
  changed_.notify_all();
}

bool DiskQueue::HasFailedJob() const {
  return std::ranges::any_of(entries_,
                             [](const Entry& entry) { return entry.erasure->Failure().has_value(); });
}

void DiskQueue::Nudge() {
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

std::optional<Seconds> DiskQueue::Expected() const {
  const MutexLock lock(mutex_);
  Bytes left;
  for (const Entry& entry : entries_) {
    if (entry.haste == Haste::kIdle) {
      continue;
    }
    left = left + (entry.erasure->parts()[entry.part].total() - entry.erasure->Done()[entry.part]);
  }
  if (left.value == 0) {
    return Seconds(0);
  }
  if (speed_ <= 0) {
    return std::nullopt;
  }
  return Seconds(static_cast<double>(left.value) / speed_);
}

bool DiskQueue::IsWriting() const {
  const MutexLock lock(mutex_);
  return writing_.has_value();
}

std::optional<std::string> DiskQueue::StuckLocked() const {
  const auto now = std::chrono::steady_clock::now();
  if (!writing_.has_value() || now - writing_->since < kStuckAfter) {
    return std::nullopt;
  }
  return fmt::format(
      "LVM commands that change volume group {} or activate its volumes wait for the erasing of {} on {}, "
      "which has taken {} s so far: the disk does not answer",
      writing_->group, HumanBytes(writing_->range.length), writing_->range.device,
      std::chrono::duration_cast<std::chrono::seconds>(now - writing_->since).count());
}

std::optional<std::string> DiskQueue::Stuck() const {
  const MutexLock lock(mutex_);
  return StuckLocked();
}

std::optional<std::string> DiskQueue::NewlyStuck() {
  const MutexLock lock(mutex_);
  auto stuck = StuckLocked();
  return stuck.has_value() && !std::exchange(writing_->told, true) ? stuck : std::nullopt;
}

void DiskQueue::Run(const std::stop_token& stop) {
  while (true) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      if (!changed_.wait(lock, stop,
                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !entries_.empty(); }) ||
          stop.stop_requested()) {
        return;
      }
      // A failed job is left first, because somebody may wait for that.
      entry = *std::ranges::min_element(
          entries_, {}, [](const Entry& e) { return std::pair(!e.erasure->Failure().has_value(), e.haste); });
    }
    if (ClearNext(entry, stop)) {
      continue;
    }
    if (stop.stop_requested()) {
      return;  // neither done nor failed
    }
    {
      const MutexLock lock(mutex_);
      std::erase_if(entries_, [&](const Entry& other) {
        return other.erasure == entry.erasure && other.part == entry.part;
      });
    }
    entry.erasure->Leave();
    tell_();
  }
}

bool DiskQueue::ClearNext(const Entry& entry, const std::stop_token& stop) {
  const auto piece = entry.erasure->Next(entry.part, MostAtOnce(entry.haste));
  if (!piece.has_value() || stop.stop_requested()) {
    return false;
  }
  const SteadyTime begun = std::chrono::steady_clock::now();
  if (Status done = ClearPiece(*entry.erasure, *piece, Call{.stop = stop}); !done.has_value()) {
    // A failed job repeats all work since its last record. A timeout (the disk is slow, or another process
    // holds the group) must not cost that, so only this piece is tried again.
    if (done.error().code() == Code::kTimeout && !stop.stop_requested()) {
      Pause(entry, done.error(), stop);
      return true;
    }
    entry.erasure->Fail(std::move(done.error()));
    return false;
  }
  pause_ = {};
  entry.erasure->Advance(entry.part, piece->range.length);
  untold_ = untold_ + piece->range.length;
  if (untold_ >= kTold) {
    untold_ = {};
    tell_();
  }
  Pace(entry, piece->range.length, begun, stop);
  return true;
}

void DiskQueue::Pause(const Entry& entry, const Error& why, const std::stop_token& stop) {
  if (pause_.count() == 0) {
    log_.Warning("erasing is delayed", {{"group", entry.erasure->owner().group},
                                        {"lv", entry.erasure->owner().lv_name},
                                        {"error", why.message()}});
  }
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  MutexLock lock(mutex_);
  changed_.wait_for(lock, stop, pause_,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasFailedJob(); });
}

Status DiskQueue::ClearPiece(const EraseJob& erasure, const EraseAction& piece, const Call& call) {
  SteadyTime begun;
  const auto method = ClearOwned(world_, erasure.owner(), piece, call, [&] {
    begun = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    writing_ = Writing{erasure.owner().group, piece.range, begun};
  });
  {
    const MutexLock lock(mutex_);
    writing_.reset();
  }
  QUARRY_TRY(method);
  const double took = std::max(Seconds(std::chrono::steady_clock::now() - begun).count(), 1e-6);
  const double speed = static_cast<double>(piece.range.length.value) / took;
  write_speed_ = write_speed_ <= 0 ? speed : (write_speed_ + speed) / 2;
  if (*method != piece.method && !std::exchange(told_of_zeroes_, true)) {
    log_.Info("a disk cannot discard: deleted volumes on it are overwritten with zeroes",
              {{"group", erasure.owner().group}, {"device", piece.range.device}});
  }
  return Ok();
}

Bytes DiskQueue::MostAtOnce(Haste haste) const {
  const Bytes rate = rates_.Of(haste);
  uint64_t most = kMostAtOnce.value;
  most =
      std::min(most, write_speed_ <= 0 ? kFirstPiece.value
                                       : static_cast<uint64_t>(std::min(write_speed_ * kPieceSeconds, 1e18)));
  if (rate.value != 0) {
    most = std::min(most, rate.value / kPiecesPerSecond);
  }
  return {std::max(most / kMiB.value, uint64_t{1}) * kMiB.value};
}

void DiskQueue::Pace(const Entry& entry, Bytes cleared, SteadyTime begun, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const Bytes rate = rates_.Of(entry.haste);
  const bool idle = entry.haste == Haste::kIdle;
  if (rate.value != 0) {
    const auto until = begun + std::chrono::duration_cast<SteadyTime::duration>(Seconds(
                                   static_cast<double>(cleared.value) / static_cast<double>(rate.value)));
    changed_.wait_until(lock, stop, until, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto other = [](const Entry& e) { return e.haste != Haste::kIdle; };
      return HasFailedJob() || (idle && std::ranges::any_of(entries_, other));
    });
  }
  if (idle) {
    return;  // its pace says nothing about other work
  }
  const double took = std::max(Seconds(std::chrono::steady_clock::now() - begun).count(), 1e-6);
  const double speed = static_cast<double>(cleared.value) / took;
  speed_ = speed_ <= 0 ? speed : (speed_ + speed) / 2;
}

}  // namespace quarry::engine
