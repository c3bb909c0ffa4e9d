// What a round of trimming did.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/units.h"

namespace quarry::engine {

// The result of a round of trimming.
struct TrimResult {
  size_t volumes = 0;  // whose file systems were trimmed
  Bytes trimmed;       // as the file systems report
  std::vector<std::string> failures;
};

}  // namespace quarry::engine
