// Parses any bytes as a line that the S3 gateway reports. No crash, and what is accepted fulfils what its
// users rely on. Entry point for libFuzzer; a unit test feeds it a corpus and mutations of it too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bucket/gateway_report.h"

namespace {

void Require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto report = quarry::bucket::ParseReport(line);
  if (!report.has_value()) {
    Require(report.error().code() == quarry::Code::kCorrupt);
    return 0;
  }
  Require(report->bucket.find_first_of(",|") == std::string_view::npos);
  Require(report->bucket.empty() ||
          (report->bucket.data() >= line.data() &&
           report->bucket.data() + report->bucket.size() <= line.data() + line.size()));
  Require(!quarry::bucket::OperationWord(report->operation).empty());
  Require(!quarry::bucket::CodeClassWord(report->code).empty());
  quarry::bucket::RequestCounts counts;
  quarry::bucket::Add(*report, counts);
  uint64_t sum = counts.received + counts.sent;
  for (const auto& operation : counts.requests) {
    for (const uint64_t requests : operation) {
      sum += requests;
    }
  }
  Require(sum == 0 || sum == report->value);
  return 0;
}
