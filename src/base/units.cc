#include "base/units.h"

#include <array>
#include <string_view>

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

}  // namespace quarry
