// What versitygw's limits are (1.8.0): --concurrency bounds the requests that are at work in the file system,
// and the next one waits, without a time limit. A PUT has its slot until its body has come. /healthz needs no
// slot, so it says nothing of whether clients are served. A request without a key does need one: versitygw
// looks whether the policy of the bucket lets everyone in. tests/gateway holds all of this.
#include "bucket/gateway_probe.h"

#include <netdb.h>

#include <charconv>

#include <fmt/format.h>

namespace quarry::bucket {
namespace {

constexpr uint32_t kMostPort = 65535;

std::string Request(std::string_view path) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
}

// "HTTP/1.1 404 Not Found" of an answer.
std::string_view FirstLine(std::string_view answer) {
  return answer.substr(0, answer.find_first_of("\r\n"));
}

bool HasStatus(std::string_view answer, std::string_view status) {
  const std::string_view line = FirstLine(answer);
  return line.starts_with("HTTP/1.1 ") && line.substr(9).starts_with(status);
}

Status NotServed(std::string_view answer) {
  return answer.empty() ? Error(Code::kUnavailable, "the gateway closed the connection")
                        : Error(Code::kUnavailable,
                                fmt::format("the gateway answers '{}'", FirstLine(answer).substr(0, 100)));
}

}  // namespace

Result<HostAndPort> ParseListen(const std::string& listen) {
  const auto bad = [&] {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}' is not ADDRESS:PORT such as 127.0.0.1:7070 or [::1]:7070", listen));
  };
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return bad();
  }
  HostAndPort out{listen.substr(0, colon), listen.substr(colon + 1)};
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return bad();
  }
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(out.port.data(), out.port.data() + out.port.size(), port);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (error != std::errc() || end != out.port.data() + out.port.size() || port == 0 || port > kMostPort ||
      out.host.empty() || getaddrinfo(out.host.c_str(), nullptr, &hints, &found) != 0) {
    return bad();
  }
  freeaddrinfo(found);
  return out;
}

Status ProbeGateway(const std::string& listen, bool tls, std::chrono::milliseconds patience) {
  constexpr std::string_view kFull =
      "the gateway is well, but all its slots are taken by requests that go on, so new requests wait: look "
      "for "
      "clients that send or read slowly, and for buckets whose disks are slow";
  QUARRY_ASSIGN(const HostAndPort to, ParseListen(listen));
  const auto answer = AskOnce(to, tls, Request(fmt::format("/{}", kProbedBucket)), CallWithin(patience));
  if (answer.has_value()) {
    if (HasStatus(*answer, "404 ") && answer->find("NoSuchBucket") != std::string::npos) {
      return Ok();
    }
    return HasStatus(*answer, "503 ") ? Status(Error(Code::kBusy, std::string(kFull))) : NotServed(*answer);
  }
  if (answer.error().code() != Code::kTimeout) {
    return answer.error();
  }
  // Does it hang, or only wait for a slot?
  const auto health = AskOnce(to, tls, Request("/healthz"), CallWithin(patience));
  return health.has_value() && HasStatus(*health, "200 ") ? Status(Error(Code::kBusy, std::string(kFull)))
                                                          : Status(answer.error());
}

}  // namespace quarry::bucket
