// What sets the generations of Mesos apart, as far as a plugin can tell.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

namespace quarry::slrp {

enum class Api { kV0_1, kV0, kV1 };

struct Generation {
  std::string_view name;
  Api api;                     // tried first
  bool falls_back;             // from v1 to v0, if v1's Probe is UNIMPLEMENTED
  std::chrono::seconds limit;  // deadline of every call
  bool retries;  // CreateVolume and DeleteVolume, on UNAVAILABLE and DEADLINE_EXCEEDED; nothing else
  bool validates_with_profile;  // pre-existing disks: by the capability of the target profile, not by an
                                // empty one
  bool reconciles;              // periodically, besides at start and with new profiles
};

// 1.7 is 1.7.2 and later there: 1.7.0 and 1.7.1 do not retry and know no target profile.
inline constexpr std::array<Generation, 4> kGenerations = {{
    {"1.5", Api::kV0_1, false, std::chrono::seconds(5), false, false, false},
    {"1.6", Api::kV0, false, std::chrono::seconds(5), false, false, false},
    {"1.7", Api::kV0, false, std::chrono::seconds(60), true, true, false},
    {"1.8", Api::kV1, true, std::chrono::seconds(60), true, true, true},
}};

// nullptr if there is none of that name. "1.9", "1.10" and "1.11" are "1.8": the same calls.
constexpr const Generation* FindGeneration(std::string_view name) {
  for (const Generation& generation : kGenerations) {
    const bool later = generation.name == "1.8" && (name == "1.9" || name == "1.10" || name == "1.11");
    if (generation.name == name || later) {
      return &generation;
    }
  }
  return nullptr;
}

// How long the agent waits for the socket, and how often it reconciles.
inline constexpr std::chrono::seconds kSocketLimit{60};
inline constexpr std::chrono::seconds kReconcileInterval{10};

}  // namespace quarry::slrp
