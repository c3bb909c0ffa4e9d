// As much of HTTP/1.1 (RFC 9112) as a scrape needs: one request without a body, and one response; then the
// connection is closed. Pure.
#pragma once

#include <string>
#include <string_view>

namespace quarry::daemon {

enum class HttpAsked {
  kIncomplete,   // more bytes have to arrive
  kMetrics,      // GET /metrics, with or without a query
  kReadiness,    // GET /readyz, likewise
  kNothingHere,  // GET of anything else
  kOtherMethod,
  kMalformed,  // not HTTP, or longer than kLongestRequest
};

constexpr size_t kLongestRequest = 8192;  // in bytes: the request line and all header fields

// What the request asks for. `request` holds all bytes received so far.
HttpAsked ReadHttpRequest(std::string_view request);

// The whole response to a scrape.
std::string MetricsAnswer(std::string_view content_type, std::string_view text);

// The whole response to a question about readiness: 200 if `problem` is empty, else 503 with the problem.
std::string ReadinessAnswer(std::string_view problem);

// The whole response to anything else that is complete.
std::string RefusalAnswer(HttpAsked asked);

}  // namespace quarry::daemon
