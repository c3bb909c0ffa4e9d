// A kill or a halt before the N-th request to device-mapper that quarryd or one of its LVM commands makes
// (tests/vm/thin/dm_watch.cc).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/vm/kit/shell.h"

namespace quarry::vm::watched {

inline constexpr char kPreload[] = "/etc/ld.so.preload";
inline constexpr char kLog[] = "/run/quarry-test/watch";
inline constexpr char kOrder[] = "/run/quarry-test/watch-nth";

// From now on every program that starts in the guest is watched. quarryd gives its LVM commands no
// environment from outside, so the file names the library.
inline void Begin() {
  std::ofstream(kPreload) << "/opt/quarry/tests/bin/dm_watch.so\n";
}
inline void End() {
  std::filesystem::remove(kPreload);
}

// Carried out once, at request number `nth` (from 0) after this. what: "one" kills the process that makes it,
// "all" also quarryd and its zygote, "halt" stops all of them. "hand" counts those that other programs make,
// and kills the one.
inline void Arm(int nth, const std::string& what) {
  std::filesystem::remove(kLog);
  std::ofstream(std::string(kOrder) + ".new") << nth << " " << what << "\n";
  std::filesystem::rename(std::string(kOrder) + ".new", kOrder);
}
// False: it was carried out, or there was none.
inline bool Disarm() {
  return std::filesystem::remove(kOrder);
}
inline bool IsArmed() {
  return std::filesystem::exists(kOrder);
}
// The request and its process, "REQUEST @ PROCESS"; empty: not carried out yet.
inline std::string CarriedOutAt() {
  return Trim(Sh(std::string("sed -n 's/^[0-9]* [0-9]* -1 //p' ") + kLog).out);
}

// QUARRY_KILLS_EVERY: only every so many requests, for a short run; 1 by default.
inline int Every() {
  const char* const every = std::getenv("QUARRY_KILLS_EVERY");
  return every == nullptr ? 1 : std::max(1, std::atoi(every));
}

}  // namespace quarry::vm::watched
