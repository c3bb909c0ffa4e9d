#include "csi/call_history.h"

namespace quarry::csi {

void CallHistory::Begin(const CallFacts& call) {
  const MutexLock lock(mutex_);
  running_.push_front(call);
}

void CallHistory::End(const CallFacts& call, bool keep) {
  const MutexLock lock(mutex_);
  std::erase_if(running_, [&](const CallFacts& one) { return one.record == call.record; });
  if (!keep && call.took < kWorthKeeping) {
    return;
  }
  ended_.push_front(call);
  if (ended_.size() > kMostCalls) {
    ended_.pop_back();
  }
}

std::vector<CallFacts> CallHistory::Calls() const {
  std::vector<CallFacts> calls;
  const MutexLock lock(mutex_);
  calls.reserve(running_.size() + ended_.size());
  for (const CallFacts& call : running_) {
    calls.push_back(call);
    calls.back().took = std::chrono::steady_clock::now() - call.record->start();
  }
  calls.insert(calls.end(), ended_.begin(), ended_.end());
  return calls;
}

}  // namespace quarry::csi
