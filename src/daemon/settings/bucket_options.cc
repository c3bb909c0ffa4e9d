#include "daemon/settings/bucket_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "bucket/gateway_probe.h"
#include "cosi/fields.h"

namespace quarry::daemon {
namespace {

constexpr size_t kMostName = 63;
constexpr const char* kCosiListen = "127.0.0.1:7070";

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// An address that clients can use where the gateway listens on all of them: the node's name.
std::string DefaultUrl(const BucketOptions& options, const bucket::HostAndPort& at, const std::string& node) {
  const bool any = at.host == "0.0.0.0" || at.host == "::";
  const bool v6 = at.host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}", options.certificate.has_value() ? "https" : "http",
                     any  ? node
                     : v6 ? fmt::format("[{}]", at.host)
                          : at.host,
                     at.port);
}

}  // namespace

Result<std::string> ParseS3Listen(std::string_view text) {
  if (text == "off") {
    return std::string();
  }
  QUARRY_TRY(bucket::ParseListen(std::string(text)));
  return std::string(text);
}

Result<std::string> ParseS3Url(std::string_view text) {
  const std::string_view host = text.substr(std::min(text.size(), text.find("://") + 3));
  if (!(text.starts_with("http://") || text.starts_with("https://")) || host.empty() ||
      host.find_first_of(" /?#\\\"'") != std::string_view::npos) {
    return Error(Code::kInvalidArgument,
                 fmt::format("must be http://HOST:PORT or https://HOST:PORT, is '{}'", text));
  }
  return std::string(text);
}

Result<std::string> ParseS3Word(std::string_view text) {
  const bool good = !text.empty() && text.size() <= kMostName && text.front() != '-' &&
                    std::ranges::all_of(text, [](char c) {
                      return IsLower(c) || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '-' || c == '_';
                    });
  return good ? Result<std::string>(std::string(text))
              : Error(Code::kInvalidArgument,
                      fmt::format("must be 1 to 63 letters, digits, '-' and '_', is '{}'", text));
}

Result<std::string> ParseCosiDriverName(std::string_view text) {
  return cosi::CheckDriverName(text).has_value()
             ? Result<std::string>(std::string(text))
             : Error(
                   Code::kInvalidArgument,
                   fmt::format("'{}' is no name of a COSI driver: at most 63 characters, labels of a-z, 0-9 "
                               "and '-' that begin with a letter, separated by dots",
                               text));
}

Status CompleteBuckets(BucketOptions& options, const std::string& node) {
  if (options.cosi_endpoint.has_value() && options.listen.empty()) {
    options.listen = kCosiListen;
  }
  if (options.certificate.has_value() != options.key.has_value()) {
    return Error(Code::kInvalidArgument, "--s3-cert and --s3-key need each other");
  }
  if (options.cosi_endpoint.has_value() && options.cosi_driver_name.empty()) {
    QUARRY_ASSIGN(options.cosi_driver_name,
                  ParseCosiDriverName(fmt::format("n-{}.s3.quarry.local", node))
                      .Context("--cosi-driver-name is not set, and the node's name does not make one"));
  }
  if (options.on() && options.url.empty()) {
    QUARRY_ASSIGN(const bucket::HostAndPort at, bucket::ParseListen(options.listen));
    options.url = DefaultUrl(options, at, node);
  }
  return Ok();
}

}  // namespace quarry::daemon
