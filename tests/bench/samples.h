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
  // 0 without samples. A quantile is a measured value (nearest rank): 0.75 exceeds three quarters of them. Of
  // fewer than 100 samples the 99th percentile is the largest.
  double Median() const;
  double Quantile(double part) const;  // 0 < part <= 1
  double P99() const { return Quantile(0.99); }

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
