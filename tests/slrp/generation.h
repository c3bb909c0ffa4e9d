// The differences between the generations of Mesos, as a plugin sees them.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

namespace quarry::slrp {

enum class Api { kV0_1, kV0, kV1 };

struct Generation {
  std::string_view name;
  Api api;                      // tried first
  bool falls_back;              // from v1 to v0, if v1's Probe is UNIMPLEMENTED
  std::chrono::seconds limit;   // deadline of every call
  bool retries;                 // CreateVolume and DeleteVolume only, on UNAVAILABLE and DEADLINE_EXCEEDED
  bool validates_with_profile;  // pre-existing disks: with the target profile's capability, not an empty one
  bool reconciles;              // periodically, in addition to the start and new profiles
};

// "1.7" means 1.7.2 and later: 1.7.0 and 1.7.1 do not retry and know no target profile.
inline constexpr std::array<Generation, 4> kGenerations = {{
    {"1.5", Api::kV0_1, false, std::chrono::seconds(5), false, false, false},
    {"1.6", Api::kV0, false, std::chrono::seconds(5), false, false, false},
    {"1.7", Api::kV0, false, std::chrono::seconds(60), true, true, false},
    {"1.8", Api::kV1, true, std::chrono::seconds(60), true, true, true},
}};

// nullptr if there is no such generation. "1.9", "1.10" and "1.11" make the same calls as "1.8".
constexpr const Generation* FindGeneration(std::string_view name) {
  for (const Generation& generation : kGenerations) {
    const bool later = generation.name == "1.8" && (name == "1.9" || name == "1.10" || name == "1.11");
    if (generation.name == name || later) {
      return &generation;
    }
  }
  return nullptr;
}

// The agent's time limit for the socket, and its interval between reconciliations.
inline constexpr std::chrono::seconds kSocketLimit{60};
inline constexpr std::chrono::seconds kReconcileInterval{10};

}  // namespace quarry::slrp
