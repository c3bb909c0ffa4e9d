// How long a caller waits, and how it requests a stop. Passed down, by const reference, through every
// function that can end early.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <stop_token>
#include <utility>

#include "base/result.h"

namespace quarry {

using SteadyTime = std::chrono::steady_clock::time_point;

// Time as a seam: tests advance it by hand.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime Now() const = 0;
  virtual std::chrono::system_clock::time_point WallNow() const = 0;
};

// The real clock. Thread-safe.
class SystemClock final : public Clock {
 public:
  SteadyTime Now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point WallNow() const override { return std::chrono::system_clock::now(); }
};

class CallRecord;

struct Call {
  SteadyTime deadline = SteadyTime::max();
  std::stop_token stop;
  // True: wait, until the deadline, for another operation on the same object instead of failing with kBusy.
  // For callers that treat "busy" as final.
  bool patient = false;
  // Where the call's steps and their times are recorded (call_record.h); nullptr: nowhere.
  std::shared_ptr<CallRecord> record = {};

  // kTimeout or kCancelled, naming `what`, once the deadline passed or a stop was requested; else OK.
  Status Check(std::string_view what) const;
  // Time left, at least 0; std::chrono::milliseconds::max() without a deadline.
  std::chrono::milliseconds Remaining() const;
  // The same call, limited to `limit` from now.
  Call Within(std::chrono::milliseconds limit) const;
};

// A call that starts now and may take `limit`.
Call CallWithin(std::chrono::milliseconds limit);

// Waits on `changed` until `done` holds or `call` ends. Returns what `done` says then. `lock` is locked
// before and afterwards, and whenever `done` is called.
template <typename Lock, typename Done>
bool WaitUntil(std::condition_variable_any& changed, Lock& lock, const Call& call, Done done) {
  // wait_until() overflows for the last point in time.
  return call.deadline == SteadyTime::max()
             ? changed.wait(lock, call.stop, std::move(done))
             : changed.wait_until(lock, call.stop, call.deadline, std::move(done));
}

// Sleeps for `time` on the steady clock, or until `stop` is requested. True if no stop was requested.
// Thread-safe.
bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time);

}  // namespace quarry
