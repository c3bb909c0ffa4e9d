#include "engine/pool/gate.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/call_record.h"

namespace quarry::engine {

void Gate::Leave::operator()(Gate* gate) const {
  const MutexLock lock(gate->mutex_);
  --gate->inside_;
  gate->changed_.notify_all();
}

// A stop request or the deadline of the call ends the wait as well.
Status Gate::WaitLocked(MutexLock& lock, const Call& call, SteadyTime until) {
  const TimedStep step(call, [] { return "wait for the start of the pool"; }, kLeastWait);
  changed_.wait_until(lock, call.stop, std::min(until, call.deadline),
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return phase_ != Phase::kStarting; });
  return phase_ == Phase::kOpen ? Ok() : Status(Error(Code::kUnavailable, reason_));
}

Result<Gate::Pass> Gate::Enter(const Call& call) {
  MutexLock lock(mutex_);
  QUARRY_TRY(WaitLocked(lock, call, std::chrono::steady_clock::now() + kLongestWait));
  ++inside_;
  return Pass(this);
}

Status Gate::Wait(const Call& call) {
  MutexLock lock(mutex_);
  return WaitLocked(lock, call,
                    std::min(std::chrono::steady_clock::now() + kLongestWait, made_ + kLongestStart));
}

Status Gate::WaitBriefly(const Call& call) {
  MutexLock lock(mutex_);
  return WaitLocked(lock, call, made_ + kBriefly);
}

Status Gate::Drain(const Call& call) {
  MutexLock lock(mutex_);
  const auto empty = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ == 0; };
  if (!WaitUntil(changed_, lock, call, empty)) {
    return Error(Code::kTimeout, fmt::format("{} calls are still in flight", inside_));
  }
  return Ok();
}

}  // namespace quarry::engine
