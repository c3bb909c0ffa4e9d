// What came of comparing the legs of a raid volume, and its text in the volume's tag. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace quarry::engine {

// When the legs of a raid volume were last compared, to the end, and how much of them differed, and still
// does as far as is known.
struct ScrubOutcome {
  std::chrono::sys_seconds ended;
  Bytes mismatched;
  bool operator==(const ScrubOutcome&) const = default;
};

// As the tag has it: "<seconds since 1970>:<bytes>". Pure.
std::string ScrubText(const ScrubOutcome& outcome);
// nullopt: never, or in words that this build does not know.
std::optional<ScrubOutcome> ReadScrub(std::string_view text);

}  // namespace quarry::engine
