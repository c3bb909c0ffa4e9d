#include "base/call.h"

#include <algorithm>
#include <condition_variable>

#include <fmt/format.h>

#include "base/mutex.h"

namespace quarry {

Status Call::Check(std::string_view what) const {
  if (stop.stop_requested()) {
    return Error(Code::kCancelled, fmt::format("{}: stopped on request", what));
  }
  if (std::chrono::steady_clock::now() >= deadline) {
    return Error(Code::kTimeout, fmt::format("{}: the deadline has passed", what));
  }
  return Ok();
}

std::chrono::milliseconds Call::Remaining() const {
  if (deadline == SteadyTime::max()) {
    return std::chrono::milliseconds::max();
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds::zero());
}

Call Call::Within(std::chrono::milliseconds limit) const {
  return {std::min(deadline, std::chrono::steady_clock::now() + limit), stop, patient, record};
}

Call CallWithin(std::chrono::milliseconds limit) {
  return Call{}.Within(limit);
}

bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time) {
  Mutex mutex;
  std::condition_variable_any stopped;
  MutexLock lock(mutex);
  stopped.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace quarry
