#include "bucket/gateway_report.h"

#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace quarry::bucket {
namespace {

constexpr std::string_view kOfRequests = "versitygw.";
// The client library counts its own packets, too.
constexpr std::string_view kOfClient = "datadog.dogstatsd.client.";
constexpr uint64_t kMostValue = uint64_t{1} << 53;  // a double of Prometheus counts exactly up to here
constexpr int kLeastStatus = 200, kMostStatus = 599, kClassSize = 100;

constexpr auto kOperationWords =
    std::to_array<std::string_view>({"get", "head", "put", "delete", "list", "other"});
static_assert(kOperationWords.size() == kOperations);
constexpr auto kCodeWords = std::to_array<std::string_view>({"2xx", "3xx", "4xx", "5xx"});
static_assert(kCodeWords.size() == kCodeClasses);

// Actions that have a word of their own. All others are kOther.
constexpr auto kActions = std::to_array<std::pair<std::string_view, Operation>>({
    {"GetObject", Operation::kGet},
    {"SelectObjectContent", Operation::kGet},
    {"HeadBucket", Operation::kHead},
    {"HeadObject", Operation::kHead},
    {"GetObjectAttributes", Operation::kHead},
    {"PutObject", Operation::kPut},
    {"PostObject", Operation::kPut},
    {"CopyObject", Operation::kPut},
    {"CreateMultipartUpload", Operation::kPut},
    {"UploadPart", Operation::kPut},
    {"UploadPartCopy", Operation::kPut},
    {"CompleteMultipartUpload", Operation::kPut},
    {"AbortMultipartUpload", Operation::kDelete},
    {"DeleteObject", Operation::kDelete},
    {"DeleteObjects", Operation::kDelete},
    {"ListObjects", Operation::kList},
    {"ListObjectsV2", Operation::kList},
    {"ListObjectVersions", Operation::kList},
    {"ListMultipartUploads", Operation::kList},
    {"ListParts", Operation::kList},
});

Operation OperationOf(std::string_view action) {
  for (const auto& [name, operation] : kActions) {
    if (name == action) {
      return operation;
    }
  }
  return Operation::kOther;
}

GatewayReport::What WhatOf(std::string_view metric) {
  using What = GatewayReport::What;
  return metric == "success_count" || metric == "failed_count" ? What::kRequests
         : metric == "bytes_written"                           ? What::kReceived
         : metric == "bytes_read"                              ? What::kSent
                                                               : What::kOther;
}

// The text up to the next `separator`, which goes, too. Everything if there is none.
std::string_view Cut(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(part.size() == text.size() ? part.size() : part.size() + 1);
  return part;
}

std::optional<uint64_t> NumberIn(std::string_view text) {
  uint64_t number = 0;
  const char* const last = std::to_address(text.end());
  const auto [end, error] = std::from_chars(std::to_address(text.begin()), last, number);
  return error == std::errc() && end == last && number <= kMostValue ? std::optional(number) : std::nullopt;
}

Error Refuse(std::string_view why) {
  // The line is not quoted: a client wrote a part of it.
  return Error(Code::kCorrupt, fmt::format("a report of the gateway {}", why));
}

struct Tags {
  std::optional<std::string_view> service, method, api, action, bucket, status;

  std::optional<std::string_view>* Named(std::string_view key) {
    const std::array<std::pair<std::string_view, std::optional<std::string_view>*>, 6> all = {
        {{"service", &service},
         {"method", &method},
         {"api", &api},
         {"action", &action},
         {"bucket", &bucket},
         {"status", &status}}};
    for (const auto& [name, tag] : all) {
      if (name == key) {
        return tag;
      }
    }
    return nullptr;
  }
};

Result<Tags> ParseTags(std::string_view text) {
  Tags tags;
  while (!text.empty()) {
    std::string_view value = Cut(text, ',');
    const std::string_view key = Cut(value, ':');
    std::optional<std::string_view>* const tag = tags.Named(key);
    if (tag == nullptr || tag->has_value()) {
      return Refuse("has a tag that versitygw does not send, or has one twice");
    }
    *tag = value;
  }
  return tags;
}

}  // namespace

std::string_view OperationWord(Operation operation) {
  return kOperationWords.at(static_cast<size_t>(operation));
}

std::string_view CodeClassWord(CodeClass code) {
  return kCodeWords.at(static_cast<size_t>(code));
}

Result<GatewayReport> ParseReport(std::string_view line) {
  if (line.starts_with(kOfClient)) {
    return GatewayReport{};
  }
  if (!line.starts_with(kOfRequests)) {
    return Refuse("has an unknown name");
  }
  line.remove_prefix(kOfRequests.size());
  GatewayReport report{.what = WhatOf(Cut(line, ':'))};
  const std::optional<uint64_t> value = NumberIn(Cut(line, '|'));
  if (!value.has_value() || Cut(line, '|') != "c") {
    return Refuse("has no count");
  }
  if (!line.starts_with('#')) {
    return Refuse("has no tags");
  }
  line.remove_prefix(1);
  QUARRY_ASSIGN(const Tags tags, ParseTags(Cut(line, '|')));
  // What follows names the container of the sender.
  if (!line.empty() && !line.starts_with("c:")) {
    return Refuse("has an unknown field");
  }
  const std::optional<uint64_t> status = NumberIn(tags.status.value_or(""));
  if (!status.has_value() || *status < kLeastStatus || *status > kMostStatus || !tags.action.has_value()) {
    return Refuse("has no action or no status");
  }
  report.value = *value;
  report.bucket = tags.bucket.value_or("");
  report.operation = OperationOf(*tags.action);
  report.code = static_cast<CodeClass>((*status / kClassSize) - (kLeastStatus / kClassSize));
  return report;
}

void Add(const GatewayReport& report, RequestCounts& counts) {
  const bool succeeded = report.code == CodeClass::k2xx;
  switch (report.what) {
    case GatewayReport::What::kRequests:
      counts.requests.at(static_cast<size_t>(report.operation)).at(static_cast<size_t>(report.code)) +=
          report.value;
      break;
    case GatewayReport::What::kReceived:
      counts.received += succeeded ? report.value : 0;
      break;
    case GatewayReport::What::kSent:
      counts.sent += succeeded ? report.value : 0;
      break;
    case GatewayReport::What::kOther:
      break;
  }
}

}  // namespace quarry::bucket
