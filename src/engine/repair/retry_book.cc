#include "engine/repair/retry_book.h"

#include <algorithm>

namespace quarry::engine {

using std::chrono::milliseconds;

std::optional<milliseconds> RetryBook::Wait(const RetryKey& key, SteadyTime now) const {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.next <= now) {
    return std::nullopt;
  }
  return std::chrono::ceil<milliseconds>(found->second.next - now);
}

void RetryBook::PutOff(const RetryKey& key, milliseconds first, SteadyTime now) {
  Entry& entry = entries_[key];
  entry.delay = std::clamp(2 * entry.delay, first, kLongestRetry);
  entry.next = now + entry.delay;
  ++entry.attempts;
}

int RetryBook::Attempts(const RetryKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? 0 : found->second.attempts;
}

}  // namespace quarry::engine
