// The search for the largest size that fits. Pure.
#pragma once

#include <cstdint>

namespace quarry::engine {

// The greatest number from 1 to `most` for which `holds(number)`, if it holds for all smaller ones, too; 0:
// it holds for none.
uint64_t Greatest(uint64_t most, const auto& holds) {
  uint64_t low = 0;
  for (uint64_t high = most; low < high;) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace quarry::engine
