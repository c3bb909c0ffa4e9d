// The steps of a test with several actors, to be shown if it fails.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace quarry::vm {

// Each line has an actor, a step, its outcome and the time since the beginning. Thread-safe.
class Story {
 public:
  void Tell(const std::string& line);
  std::string Text() const;
  size_t Steps() const;  // lines told so far; Begin() does not reset the count
  void Begin();          // forgets the lines

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::string text_;
  size_t steps_ = 0;
};

}  // namespace quarry::vm
