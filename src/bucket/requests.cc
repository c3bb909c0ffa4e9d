// Counts what clients ask of each bucket.

#include "bucket/buckets.h"
#include "bucket/gateway_probe.h"
#include "bucket/report_socket.h"

namespace quarry::bucket {

// Only buckets that this process knows have counts, so no client can make it keep more.
RequestCounts& Buckets::CountsOfLocked(std::string_view name) {
  RequestCounts* counts = &elsewhere_;
  for (auto& [id, known] : known_) {
    if (known.settings.name == name && (known.linked || counts == &elsewhere_)) {
      counts = &known.requests;  // of two buckets of one name, the one that serves
    }
  }
  return *counts;
}

void Buckets::TakeReport(std::string_view line) {
  const auto report = ParseReport(line);
  const MutexLock lock(mutex_);
  if (!report.has_value()) {
    ++refused_reports_;
  } else if (report->what != GatewayReport::What::kOther && report->bucket != kProbedBucket) {
    Add(*report, CountsOfLocked(report->bucket));
  }
}

void Buckets::TakeReports(const std::stop_token& stop) {
  ReceiveReports(reports_.get(), stop, [this](std::string_view line) { TakeReport(line); });
}

}  // namespace quarry::bucket
