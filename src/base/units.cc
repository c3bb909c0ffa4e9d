#include "base/units.h"

#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace quarry {

std::string HumanBytes(Bytes bytes) {
  static constexpr std::array<std::string_view, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double amount = static_cast<double>(bytes.value);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kNames.size()) {
    amount /= 1024;
    ++unit;
  }
  const bool whole = amount == static_cast<double>(static_cast<uint64_t>(amount));
  return whole ? fmt::format("{} {}", static_cast<uint64_t>(amount), kNames[unit])
               : fmt::format("{:.2f} {}", amount, kNames[unit]);
}

Result<Bytes> ParseSize(std::string_view text) {
  static constexpr std::string_view kPrefixes = "KMGT";
  const auto wrong = [text](std::string_view must) {
    return Error(Code::kInvalidArgument, fmt::format("must be {}, is '{}'", must, text));
  };
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  std::string_view unit = text.substr(digits.size());
  unit.remove_prefix(unit.starts_with(' ') ? 1 : 0);
  const size_t power = unit.empty() ? std::string_view::npos : kPrefixes.find(unit.front());
  const bool known = unit.empty()
                         ? digits.size() == text.size()
                         : power != std::string_view::npos && (unit.size() == 1 || unit.substr(1) == "iB");
  if (error != std::errc() || !known) {
    return wrong("a size like 4MiB, 10GiB or 4096 (bytes)");
  }
  const uint64_t factor = unit.empty() ? 1 : uint64_t{1} << (10 * (power + 1));
  if (factor > 1 && number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / factor) {
    return wrong("smaller than 8 EiB");
  }
  return Bytes{number * factor};
}

}  // namespace quarry
