// Durations of a repeated step.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace quarry::bench {

class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  size_t size() const { return values_.size(); }
  // 0 without samples. The 99th percentile is a measured value (nearest rank); of fewer than 100 samples it
  // is the largest.
  double Median() const;
  double P99() const;

 private:
  std::vector<double> values_;
};

// Runs `what`, adds its duration in milliseconds, and returns its result.
template <typename What>
auto Timed(Samples& samples, What&& what) {
  const auto started = std::chrono::steady_clock::now();
  auto result = std::forward<What>(what)();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - started;
  samples.Add(took.count());
  return result;
}

}  // namespace quarry::bench
