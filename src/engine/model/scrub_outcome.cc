#include "engine/model/scrub_outcome.h"

#include <charconv>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

template <typename Number>
bool Parse(std::string_view text, Number& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string ScrubText(const ScrubOutcome& outcome) {
  return fmt::format("{}:{}", outcome.ended.time_since_epoch().count(), outcome.mismatched.value);
}

std::optional<ScrubOutcome> ReadScrub(std::string_view text) {
  const size_t colon = text.find(':');
  int64_t ended = 0;
  uint64_t bytes = 0;
  if (colon == std::string_view::npos || !Parse(text.substr(0, colon), ended) ||
      !Parse(text.substr(colon + 1), bytes)) {
    return std::nullopt;
  }
  return ScrubOutcome{std::chrono::sys_seconds(std::chrono::seconds(ended)), Bytes{bytes}};
}

}  // namespace quarry::engine
