#include "tests/bench/report.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace quarry::bench {
namespace {

// Rounds to four significant digits: the measurements are no more precise.
double Rounded(double value) {
  if (value == 0) {
    return 0;
  }
  const double unit = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}

}  // namespace

double Finding::Ratio() const {
  return peer.has_value() && peer->Median() > 0 ? ours.Median() / peer->Median() : 0;
}

std::string ToJson(const Finding& finding) {
  nlohmann::ordered_json line;
  line["name"] = finding.name;
  line["ours"] = Rounded(finding.ours.Median());
  if (finding.peer.has_value()) {
    line["peer"] = Rounded(finding.peer->Median());
  } else {
    line["peer"] = nullptr;
  }
  line["unit"] = finding.unit;
  if (finding.peer.has_value()) {
    line["ratio"] = Rounded(finding.Ratio());
  } else {
    line["ratio"] = nullptr;
  }
  line["n"] = finding.ours.size();
  line["ours_p99"] = Rounded(finding.ours.P99());
  if (finding.peer.has_value()) {
    line["peer_p99"] = Rounded(finding.peer->P99());
  }
  for (const auto& [key, value] : finding.more) {
    line[key] = Rounded(value);
  }
  line["what"] = finding.what;
  line["goal"] = finding.goal;
  if (finding.goal.empty()) {
    line["met"] = nullptr;
  } else {
    line["met"] = finding.met;
  }
  return line.dump();
}

void Report(const Finding& finding) {
  fmt::print("{}\n", ToJson(finding));
  std::fflush(stdout);
}

void Progress(const std::string& text) {
  static const auto started = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - started;
  fmt::print(stderr, "    {:4.0f} s  {}\n", since.count(), text);
}

}  // namespace quarry::bench
