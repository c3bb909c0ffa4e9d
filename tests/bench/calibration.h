// How much slower an emulated guest is than the host under it. Some goals are said for a native machine: what
// a guest needs is divided by this. An estimate, and shown as one.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::bench {

// Milliseconds, or a quotient of two such.
struct Costs {
  double work = 1;     // building, writing and reading a ListVolumes response of 1,000 volumes
  double process = 1;  // starting a program and waiting for it
};
using Slowdown = Costs;

// The least of several tries, so that a busy machine spoils none.
Costs MeasureCosts();

std::string ToText(const Costs& costs);
Result<Costs> ParseCosts(const std::string& text);

}  // namespace quarry::bench
