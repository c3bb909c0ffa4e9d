// Waits for what other threads do.
#pragma once

#include <chrono>
#include <thread>

namespace quarry::engine {

// Asks `holds` again and again. Returns what it says last. The limit is only there to end a test that would
// hang.
bool Eventually(const auto& holds, std::chrono::seconds limit = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return holds();
}

}  // namespace quarry::engine
