#include "tests/vm/kit/story.h"

#include <fmt/format.h>

namespace quarry::vm {

void Story::Tell(const std::string& line) {
  const std::lock_guard lock(mutex_);
  const double at = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  ++steps_;
  text_ += fmt::format("{:7.2f} {}\n", at, line);
}

size_t Story::Steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

std::string Story::Text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

void Story::Begin() {
  const std::lock_guard lock(mutex_);
  begun_ = std::chrono::steady_clock::now();
  text_.clear();
}

}  // namespace quarry::vm
