// Durations of one thing that was done again and again.
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
  // Of nothing: 0. The 99th percentile is a value that was seen (nearest rank): of fewer than 100 the
  // largest.
  double Median() const;
  double P99() const;

 private:
  std::vector<double> values_;
};

// Runs `what`, adds how long it took in milliseconds, and returns what it returned.
template <typename What>
auto Timed(Samples& samples, What&& what) {
  const auto started = std::chrono::steady_clock::now();
  auto result = std::forward<What>(what)();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - started;
  samples.Add(took.count());
  return result;
}

}  // namespace quarry::bench
