// The result of a benchmark: one line of JSON, with its goal and whether the goal was met, or with neither.
// docs/benchmarks.md explains the fields.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/samples.h"

namespace quarry::bench {

struct Finding {
  std::string name;  // "P1.create.linear"
  std::string what;  // for people: "CreateVolume : lvcreate"
  Samples ours;
  std::optional<Samples> peer;
  std::string unit = "ms";
  std::string goal;                                  // for people: "ratio <= 0.33"; empty: no goal
  bool met = false;                                  // meaningless without a goal
  std::vector<std::pair<std::string, double>> more;  // further fields

  double Ratio() const;  // of the medians; 0 without a peer
};

std::string ToJson(const Finding& finding);

// Prints the finding on standard output, at once.
void Report(const Finding& finding);
// Prints progress on standard error, with the seconds since the first call.
void Progress(const std::string& text);

}  // namespace quarry::bench
