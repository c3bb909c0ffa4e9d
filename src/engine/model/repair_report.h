// Why a repair round runs, and what it did.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace quarry::engine {

// Why a repair round runs. kEvent: a kernel device changed. kDisks: disks may have come or gone. kAsked: an
// administrator asked, and does not wait for the delays of the policy.
enum class RepairCause { kEvent, kDisks, kAsked };

// The result of a repair round.
struct RepairReport {
  std::vector<std::string> done;       // steps, as text
  std::vector<std::string> obstacles;  // repairs that are needed but not possible, with the remedy
  // When work is due that no event announces. nullopt: there is no such work.
  std::optional<std::chrono::milliseconds> next;

  void NoLaterThan(std::chrono::milliseconds when) {
    when = std::max(when, std::chrono::milliseconds(1));
    next = std::min(next.value_or(when), when);
  }
};

}  // namespace quarry::engine
