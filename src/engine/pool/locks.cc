#include "engine/pool/locks.h"

#include <chrono>

#include <fmt/format.h>

#include "base/call_record.h"

namespace quarry::engine {
namespace {

// How long an impatient call waits for housekeeping before it gets kBusy: some steps take LVM a second or
// two.
constexpr std::chrono::seconds kPatience{10};

}  // namespace

KeyLocks::Guard::~Guard() {
  if (locks_ != nullptr) {
    const MutexLock lock(locks_->mutex_);
    locks_->held_.erase(key_);
    locks_->released_.notify_all();
  }
}

Result<KeyLocks::Guard> KeyLocks::TryLock(const LockKey& key, const std::string& operation) {
  const MutexLock lock(mutex_);
  return TakeLocked(key, operation, true);
}

Result<KeyLocks::Guard> KeyLocks::Lock(const LockKey& key, const std::string& operation, const Call& call) {
  const TimedStep step(call, [&] { return fmt::format("wait for the lock {}", key.text()); }, kLeastWait);
  MutexLock lock(mutex_);
  const auto worth_no_wait = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto holder = held_.find(key);
    return holder == held_.end() || (!call.patient && !holder->second.housekeeping);
  };
  const bool over = WaitUntil(released_, lock, call.patient ? call : call.Within(kPatience), worth_no_wait);
  if (!over && call.stop.stop_requested()) {
    return Error(Code::kCancelled, fmt::format("{}: stopped on request while waiting", operation));
  }
  auto taken = TakeLocked(key, operation, false);
  return taken.has_value() || !call.patient
             ? std::move(taken)
             : std::move(taken.error()).As(Code::kUnavailable).Context("try again");
}

Result<KeyLocks::Guard> KeyLocks::TakeLocked(const LockKey& key, const std::string& operation,
                                             bool housekeeping) {
  const auto now = std::chrono::steady_clock::now();
  const auto [holder, inserted] = held_.try_emplace(key, Holder{operation, now, housekeeping});
  if (!inserted) {
    const auto held = std::chrono::duration<double>(now - holder->second.since).count();
    return Error(Code::kBusy,
                 fmt::format("{} has been in flight for {:.1f} s", holder->second.operation, held));
  }
  return Guard(this, key);
}

void WriterQueue::Leave::operator()(WriterQueue* queue) const {
  const MutexLock lock(queue->mutex_);
  queue->waiting_.erase(queue->waiting_.begin());
  queue->changed_.notify_all();
}

Result<WriterQueue::Turn> WriterQueue::Wait(const std::string& operation, const Call& call) {
  std::string before;  // the operation that had the turn
  const TimedStep step(
      call, [&] { return fmt::format("wait for the group's turn behind {}", before); }, kLeastWait);
  MutexLock lock(mutex_);
  if (call.record != nullptr && !waiting_.empty()) {
    before = waiting_.begin()->second;
  }
  const uint64_t ticket = next_ticket_++;
  waiting_.emplace(ticket, operation);
  const auto my_turn = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.begin()->first == ticket;
  };
  if (WaitUntil(changed_, lock, call, my_turn)) {
    return Turn(this);
  }
  const std::string head = waiting_.begin()->second;
  waiting_.erase(ticket);
  changed_.notify_all();
  auto why = call.Check(operation);
  Error error = why.has_value() ? Error(Code::kCancelled, operation) : std::move(why.error());
  return std::move(error).Context(fmt::format("waiting for the volume group behind {}", head));
}

}  // namespace quarry::engine
