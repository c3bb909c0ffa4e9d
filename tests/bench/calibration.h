// The factor by which an emulated guest is slower than its host. Some goals are for a native machine: a
// guest's time is divided by this factor. It is an estimate, and is shown as one.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::bench {

// Milliseconds, or a quotient of two Costs.
struct Costs {
  double work = 1;     // building, writing and reading a ListVolumes response of 1,000 volumes
  double process = 1;  // starting a program and waiting for it
};
using Slowdown = Costs;

// The minimum of several tries, so that a busy machine does not distort it.
Costs MeasureCosts();

std::string ToText(const Costs& costs);
Result<Costs> ParseCosts(const std::string& text);

}  // namespace quarry::bench
