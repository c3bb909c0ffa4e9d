// The outcome of a scrub, and its text in the volume's tag. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace quarry::engine {

// When a scrub of a RAID volume last ran to its end, and how many bytes of the legs differed. As far as is
// known they still differ.
struct ScrubOutcome {
  std::chrono::sys_seconds ended;
  Bytes mismatched;
  bool operator==(const ScrubOutcome&) const = default;
};

// The text in the tag: "<seconds since 1970>:<bytes>". Pure.
std::string ScrubText(const ScrubOutcome& outcome);
// nullopt: never scrubbed, or a text that this build does not know.
std::optional<ScrubOutcome> ReadScrub(std::string_view text);

}  // namespace quarry::engine
