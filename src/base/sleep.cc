#include "base/sleep.h"

#include <condition_variable>
#include <mutex>

namespace quarry {

bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace quarry
