// What the gateway reports of the requests that it has answered: versitygw's metrics, as DogStatsD sends
// them. https://docs.datadoghq.com/developers/dogstatsd/datagram_shell has the format. tests/gateway holds
// what versitygw sends in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace quarry::bucket {

// What a request asked for. Multipart uploads count by their steps: each step is a request.
enum class Operation : uint8_t { kGet, kHead, kPut, kDelete, kList, kOther };
inline constexpr size_t kOperations = 6;
std::string_view OperationWord(Operation operation);  // "get"

// The first digit of an HTTP status.
enum class CodeClass : uint8_t { k2xx, k3xx, k4xx, k5xx };
inline constexpr size_t kCodeClasses = 4;
std::string_view CodeClassWord(CodeClass code);  // "2xx"

// Requests since this quarryd began to count, by what they asked for and how they ended.
struct RequestCounts {
  std::array<std::array<uint64_t, kCodeClasses>, kOperations> requests{};
  uint64_t received = 0, sent = 0;  // bytes of objects, of requests that succeeded

  uint64_t Of(Operation operation, CodeClass code) const {
    return requests.at(static_cast<size_t>(operation)).at(static_cast<size_t>(code));
  }
  bool operator==(const RequestCounts&) const = default;
};

// One line of a datagram.
struct GatewayReport {
  enum class What : uint8_t { kRequests, kReceived, kSent, kOther };
  What what = What::kOther;      // kOther: nothing that is counted here
  uint64_t value = 0;            // requests or bytes, at most 2^53
  std::string_view bucket = {};  // a part of the line, as a client wrote it; empty: the request named none
  Operation operation = Operation::kOther;
  CodeClass code = CodeClass::k2xx;

  bool operator==(const GatewayReport&) const = default;
};

// kCorrupt: the line is none of versitygw's. The gateway puts the name of a bucket into it as its client
// wrote it, so a line is refused that has a tag twice, or one that versitygw does not send. Pure.
Result<GatewayReport> ParseReport(std::string_view line);

// Adds a report that is not kOther.
void Add(const GatewayReport& report, RequestCounts& counts);

}  // namespace quarry::bucket
