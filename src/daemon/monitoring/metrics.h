// Numbers for a monitoring system, in Prometheus' text format.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quarry::daemon {

using MetricLabels = std::map<std::string, std::string>;

// Values that the caller has just looked up, one for each set of labels.
struct Gauge {
  std::string name;  // begins with "quarry_" and includes a base unit: "quarry_pool_free_bytes"
  std::string help;
  std::vector<std::pair<MetricLabels, double>> values;
  bool counts = false;  // a counter kept elsewhere: it never falls
};

// Histograms that last as long as the process. Thread-safe.
class Metrics {
 public:
  // Durations of one kind of event, in seconds. Buckets range from half a millisecond to a minute.
  class Timings {
   public:
    virtual ~Timings() = default;
    virtual void Observe(const MetricLabels& labels, std::chrono::duration<double> took) = 0;
  };

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The result lives as long as this object. Use each name once.
  Timings& AddTimings(const std::string& name, const std::string& help);
  // All timings, and `gauges`.
  std::string Text(const std::vector<Gauge>& gauges) const;

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry::daemon
