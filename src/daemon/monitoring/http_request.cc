#include "daemon/monitoring/http_request.h"

#include <fmt/format.h>

namespace quarry::daemon {
namespace {

constexpr std::string_view kPlain = "text/plain";

std::string Answer(std::string_view status, std::string_view content_type, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status, content_type, body.size(), body);
}

std::string_view RefusalStatus(HttpAsked asked) {
  switch (asked) {
    case HttpAsked::kNothingHere:
      return "404 Not Found";
    case HttpAsked::kOtherMethod:
      return "405 Method Not Allowed\r\nAllow: GET";
    case HttpAsked::kIncomplete:
    case HttpAsked::kMetrics:
    case HttpAsked::kReadiness:
    case HttpAsked::kMalformed:
      break;
  }
  return "400 Bad Request";
}

}  // namespace

HttpAsked ReadHttpRequest(std::string_view request) {
  if (request.size() > kLongestRequest) {
    return HttpAsked::kMalformed;
  }
  if (request.find("\r\n\r\n") == std::string_view::npos) {
    return HttpAsked::kIncomplete;
  }
  // METHOD SP TARGET SP VERSION
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == 0 || last <= first + 1 ||
      !line.substr(last + 1).starts_with("HTTP/1.")) {
    return HttpAsked::kMalformed;
  }
  if (line.substr(0, first) != "GET") {
    return HttpAsked::kOtherMethod;
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view path = target.substr(0, target.find('?'));
  return path == "/metrics"  ? HttpAsked::kMetrics
         : path == "/readyz" ? HttpAsked::kReadiness
                             : HttpAsked::kNothingHere;
}

std::string MetricsAnswer(std::string_view content_type, std::string_view text) {
  return Answer("200 OK", content_type, text);
}

std::string ReadinessAnswer(std::string_view problem) {
  return problem.empty() ? Answer("200 OK", kPlain, "ok\n")
                         : Answer("503 Service Unavailable", kPlain, fmt::format("{}\n", problem));
}

std::string RefusalAnswer(HttpAsked asked) {
  return Answer(RefusalStatus(asked), kPlain, "");
}

}  // namespace quarry::daemon
