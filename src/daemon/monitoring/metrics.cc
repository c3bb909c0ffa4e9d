#include "daemon/monitoring/metrics.h"

#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace quarry::daemon {
namespace {

prometheus::MetricFamily FamilyOf(const Gauge& gauge) {
  prometheus::MetricFamily family{
      gauge.name,
      gauge.help,
      gauge.counts ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge,
      {}};
  for (const auto& [labels, value] : gauge.values) {
    prometheus::ClientMetric metric;
    for (const auto& [name, text] : labels) {
      metric.label.push_back({name, text});
    }
    (gauge.counts ? metric.counter.value : metric.gauge.value) = value;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

Metrics::Metrics() : registry_(std::make_unique<prometheus::Registry>()) {}

Metrics::~Metrics() = default;

Metrics::Timings Metrics::AddTimings(const std::string& name, const std::string& help) {
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_);
  return [&family](const MetricLabels& labels, std::chrono::duration<double> took) {
    static const prometheus::Histogram::BucketBoundaries kSeconds{
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
    family.Add(labels, kSeconds).Observe(took.count());
  };
}

std::string Metrics::Text(const std::vector<Gauge>& gauges) const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  for (const Gauge& gauge : gauges) {
    families.push_back(FamilyOf(gauge));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quarry::daemon
