// Numbers for a monitoring system, in the text format that Prometheus reads.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quarry::daemon {

using MetricLabels = std::map<std::string, std::string>;

// Values that somebody has looked up just now, one for each set of labels.
struct Gauge {
  std::string name;  // "quarry_" and a base unit: "quarry_pool_free_bytes"
  std::string help;
  std::vector<std::pair<MetricLabels, double>> values;
  bool counts = false;  // it is a counter that somebody else keeps: it never falls
};

// Histograms that live as long as the process. Thread-safe.
class Metrics {
 public:
  // How long things of one kind took, in seconds; buckets from half a millisecond to a minute.
  class Timings {
   public:
    virtual ~Timings() = default;
    virtual void Observe(const MetricLabels& labels, std::chrono::duration<double> took) = 0;
  };

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Lives as long as this object. Each name once.
  Timings& AddTimings(const std::string& name, const std::string& help);
  // All timings, and `gauges`.
  std::string Text(const std::vector<Gauge>& gauges) const;

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry::daemon
