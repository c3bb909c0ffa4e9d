#include "base/sleep.h"

#include <condition_variable>

#include "base/mutex.h"

namespace quarry {

bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time) {
  Mutex mutex;
  std::condition_variable_any stopped;
  MutexLock lock(mutex);
  stopped.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace quarry
