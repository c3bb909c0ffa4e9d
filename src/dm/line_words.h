// The words of the kernel's lines about a target. Pure.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quarry::dm {

inline std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(begin);
    out.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(out.back().size());
  }
}

// The whole word as a number; nullopt: it is none, or it has more than 64 bits.
inline std::optional<uint64_t> Number(std::string_view word) {
  uint64_t value = 0;
  const char* const begin = word.data();
  const char* const end = begin + word.size();
  const auto parsed = std::from_chars(begin, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

}  // namespace quarry::dm
