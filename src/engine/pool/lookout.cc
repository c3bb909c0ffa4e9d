#include "engine/pool/lookout.h"

#include <algorithm>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For this long, later calls get "the group is missing" at once. To find it out, LVM scans all disks.
constexpr milliseconds kRemembered{1000};
// An LVM command that waits for a silent disk ends when the disk answers. A command that waits for anything
// else has ended long before this.
constexpr std::chrono::minutes kLongest{10};

}  // namespace

Lookout::Lookout(Read read)
    : read_(std::move(read)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Lookout::Run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (changed_.wait(lock, stop,
                       [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return wanted_ > begun_; })) {
    const Question mine = ++begun_;
    began_at_ = steady_clock::now();
    lock.unlock();
    auto outcome = read_(Call{.stop = stop}.Within(kLongest));
    lock.lock();
    finished_ = mine;
    const bool missing = !outcome.has_value() && outcome.error().code() == Code::kNotFound;
    missing_until_ = missing ? steady_clock::now() + kRemembered : SteadyTime();
    if (outcome.has_value()) {
      failing_since_.reset();
    } else if (!failing_since_.has_value()) {
      failing_since_ = began_at_;
    }
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }
}

Lookout::Question Lookout::Ask() {
  const MutexLock lock(mutex_);
  if (begun_ == finished_ && steady_clock::now() < missing_until_) {
    return finished_;
  }
  // The reading under way may be older than what the caller knows, so a new one is needed.
  wanted_ = std::max(wanted_, begun_ + 1);
  changed_.notify_all();
  return begun_ + 1;
}

Error Lookout::Silent() {
  const SteadyTime since = begun_ > finished_ ? began_at_ : steady_clock::now();
  failing_since_ = std::min(failing_since_.value_or(since), since);
  const auto waited = std::chrono::duration<double>(steady_clock::now() - *failing_since_).count();
  return {Code::kUnavailable, fmt::format("no answer for {:.1f} s: LVM or a disk does not respond", waited)};
}

Result<lvm::Snapshot> Lookout::Await(Question question, milliseconds patience, const Call& call) {
  MutexLock lock(mutex_);
  const SteadyTime asked = steady_clock::now();
  while (!IsDone(question)) {
    const SteadyTime from = begun_ > finished_ ? std::min(began_at_, asked) : asked;
    const SteadyTime until = std::min(from + patience, call.deadline);
    if (steady_clock::now() >= until || call.stop.stop_requested()) {
      break;
    }
    const Question begun = begun_;
    changed_.wait_until(lock, call.stop, until, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return IsDone(question) || begun_ != begun;
    });
  }
  if (IsDone(question)) {
    return outcome_;
  }
  QUARRY_TRY(call.Check("reading a volume group"));
  return Silent();
}

}  // namespace quarry::engine
