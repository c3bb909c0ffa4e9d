// Turns cancellation by the caller into stop tokens. gRPC's synchronous interface reports a cancellation only
// when asked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <stop_token>
#include <thread>

#include "base/mutex.h"

namespace quarry::csi {

// One thread asks gRPC about all calls in flight, every `interval`, and only while there are calls.
// Thread-safe.
class CancelWatch {
 public:
  explicit CancelWatch(std::chrono::milliseconds interval = std::chrono::milliseconds(50));
  CancelWatch(const CancelWatch&) = delete;
  CancelWatch& operator=(const CancelWatch&) = delete;

 private:
  struct Entry {
    std::function<bool()> cancelled;
    std::stop_source stop;
  };
  using Entries = std::list<Entry>;

 public:
  // One call under watch. After its destruction `cancelled` is not called again and may be destroyed too.
  class Watched {
   public:
    Watched(CancelWatch& watch, std::function<bool()> cancelled);
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

    std::stop_token token() const { return entry_->stop.get_token(); }

   private:
    CancelWatch& watch_;
    Entries::iterator entry_;
  };

 private:
  void Run(const std::stop_token& stop);
  std::list<std::stop_source> FindCancelled();

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  std::condition_variable_any wake_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: everything above exists before it runs
};

}  // namespace quarry::csi
