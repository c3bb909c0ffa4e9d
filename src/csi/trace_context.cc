#include "csi/trace_context.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include <fmt/format.h>

namespace quarry::csi {
namespace {

constexpr size_t kVersion = 2, kTraceId = 32, kParentId = 16, kFlags = 2;

// Capital letters are not allowed.
bool IsHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

std::optional<std::string> ParseTraceParent(std::string_view text) {
  constexpr size_t kLength = kVersion + 1 + kTraceId + 1 + kParentId + 1 + kFlags;
  if (text.size() < kLength) {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, kVersion);
  const std::string_view trace = text.substr(kVersion + 1, kTraceId);
  const std::string_view parent = text.substr(kVersion + 1 + kTraceId + 1, kParentId);
  const std::string_view flags = text.substr(kLength - kFlags, kFlags);
  const bool hyphens =
      text[kVersion] == '-' && text[kVersion + 1 + kTraceId] == '-' && text[kLength - kFlags - 1] == '-';
  const bool ends = version == "00" ? text.size() == kLength : text.size() == kLength || text[kLength] == '-';
  if (!hyphens || !ends || version == "ff" || !IsHex(version) || !IsHex(trace) || !IsHex(parent) ||
      !IsHex(flags) || IsZero(trace) || IsZero(parent)) {
    return std::nullopt;
  }
  return std::string(trace);
}

std::string NewTraceId() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  const uint64_t high = random();
  const uint64_t low = random();
  return fmt::format("{:016x}{:016x}", high, high == 0 && low == 0 ? 1 : low);
}

}  // namespace quarry::csi
