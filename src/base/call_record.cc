#include "base/call_record.h"

namespace quarry {

void CallRecord::Add(std::string text, SteadyTime from, SteadyTime to) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  if (text.size() > kMostText) {
    size_t end = kMostText;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;  // not in the middle of a character
    }
    text.resize(end);
  }
  const MutexLock lock(mutex_);
  if (steps_.steps.size() == kMostSteps) {
    ++steps_.forgotten;
    return;
  }
  steps_.steps.push_back({.text = std::move(text),
                          .from = duration_cast<microseconds>(from - start_),
                          .took = duration_cast<microseconds>(to - from)});
}

CallRecord::Steps CallRecord::steps() const {
  const MutexLock lock(mutex_);
  return steps_;
}

}  // namespace quarry
