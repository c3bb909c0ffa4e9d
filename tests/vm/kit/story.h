// What happened in a test that has several at work, step by step, to be shown if it fails.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace quarry::vm {

// Lines of what was done, by whom and with what outcome, each with the time since the beginning. Any thread.
class Story {
 public:
  void Tell(const std::string& line);
  std::string Text() const;
  size_t Steps() const;  // told so far, and never fewer: Begin() does not forget them
  void Begin();          // forgets what was told

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::string text_;
  size_t steps_ = 0;
};

}  // namespace quarry::vm
