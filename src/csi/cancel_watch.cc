#include "csi/cancel_watch.h"

#include <utility>

#include "base/call.h"

namespace quarry::csi {

CancelWatch::CancelWatch(std::chrono::milliseconds interval)
    : interval_(interval), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

CancelWatch::Watched::Watched(CancelWatch& watch, std::function<bool()> cancelled) : watch_(watch) {
  const MutexLock lock(watch_.mutex_);
  entry_ = watch_.entries_.insert(watch_.entries_.end(), Entry{std::move(cancelled), {}});
  watch_.wake_.notify_one();
}

CancelWatch::Watched::~Watched() {
  const MutexLock lock(watch_.mutex_);
  watch_.entries_.erase(entry_);
}

void CancelWatch::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      wake_.wait(lock, stop, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !entries_.empty(); });
    }
    (void)Sleep(stop, interval_);
    // Outside the lock: a stop callback may end a call, and ~Watched takes the lock.
    for (std::stop_source& source : FindCancelled()) {
      source.request_stop();
    }
  }
}

std::list<std::stop_source> CancelWatch::FindCancelled() {
  std::list<std::stop_source> found;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.stop.stop_requested() && entry.cancelled()) {
      found.push_back(entry.stop);
    }
  }
  return found;
}

}  // namespace quarry::csi
