// The running calls and the last ones that ended, with their steps, for `quarryctl trace`. Bounded: the
// oldest call makes room for the newest.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/call_record.h"
#include "base/mutex.h"

namespace quarry::csi {

struct CallFacts {
  std::shared_ptr<const CallRecord> record;
  std::string method, version;  // "CreateVolume", "v1"
  std::string volume;
  std::chrono::system_clock::time_point began;
  std::chrono::steady_clock::duration took{0};  // of a running call: so far
  std::string code;                             // "ok" or the name of an error's code; empty: it is running
};

// Thread-safe.
class CallHistory {
 public:
  static constexpr size_t kMostCalls = 256;
  // Callers poll: a reading call that succeeds sooner than this is forgotten, so that it pushes no other call
  // out.
  static constexpr std::chrono::milliseconds kWorthKeeping{100};

  // The call runs from now until its End().
  void Begin(const CallFacts& call);
  // `keep`: keep it even if it was quick.
  void End(const CallFacts& call, bool keep);

  // Running calls first, then those that ended, the newest first.
  std::vector<CallFacts> Calls() const;

 private:
  mutable Mutex mutex_;
  std::deque<CallFacts> running_ ABSL_GUARDED_BY(mutex_), ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::csi
