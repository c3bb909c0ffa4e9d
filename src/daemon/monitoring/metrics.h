// Numbers for a monitoring system, in Prometheus' text format.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace quarry::daemon {

using MetricLabels = std::map<std::string, std::string>;

// Values that the caller has just looked up, one for each set of labels.
struct Gauge {
  std::string name;  // begins with "quarry_" and includes a base unit: "quarry_pool_free_bytes"
  std::string help;
  std::vector<std::pair<MetricLabels, double>> values = {};
  bool counts = false;  // a counter kept elsewhere: it never falls
};

// Histograms that last as long as the process. Thread-safe.
class Metrics {
 public:
  // Observes how long an event of one kind took. Buckets range from half a millisecond to a minute.
  using Timings = std::function<void(const MetricLabels& labels, std::chrono::duration<double> took)>;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Adds a histogram, in seconds. The result must not be called after this object is destroyed. Use each
  // name once.
  Timings AddTimings(const std::string& name, const std::string& help);
  // All timings, and `gauges`.
  std::string Text(const std::vector<Gauge>& gauges) const;

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  std::unique_ptr<prometheus::Registry> registry_;
};

}  // namespace quarry::daemon
