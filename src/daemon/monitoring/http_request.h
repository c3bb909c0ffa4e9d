// As much of HTTP/1.1 (RFC 9112) as a scrape needs: one request without a body, one answer, and the
// connection is closed. Pure.
#pragma once

#include <string>
#include <string_view>

namespace quarry::daemon {

enum class HttpAsked {
  kIncomplete,   // more is to come
  kMetrics,      // GET /metrics, with or without a query
  kNothingHere,  // GET of anything else
  kOtherMethod,
  kMalformed,  // no HTTP, or more than kLongestRequest
};

constexpr size_t kLongestRequest = 8192;  // bytes, head of the request included

// What `request`, all that was received so far, asks for.
HttpAsked ReadHttpRequest(std::string_view request);

// The whole answer; `body` only for kMetrics.
std::string HttpAnswer(HttpAsked asked, std::string_view content_type, std::string_view body);

}  // namespace quarry::daemon
