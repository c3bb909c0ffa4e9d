#include "daemon/monitoring/http_request.h"

#include <fmt/format.h>

namespace quarry::daemon {
namespace {

std::string_view StatusLine(HttpAsked asked) {
  switch (asked) {
    case HttpAsked::kMetrics:
      return "200 OK";
    case HttpAsked::kNothingHere:
      return "404 Not Found";
    case HttpAsked::kOtherMethod:
      return "405 Method Not Allowed\r\nAllow: GET";
    case HttpAsked::kIncomplete:
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
  return target.substr(0, target.find('?')) == "/metrics" ? HttpAsked::kMetrics : HttpAsked::kNothingHere;
}

std::string HttpAnswer(HttpAsked asked, std::string_view content_type, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     StatusLine(asked), content_type, body.size(), body);
}

}  // namespace quarry::daemon
