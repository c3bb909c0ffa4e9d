// Asks the gateway whether it serves.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"

namespace quarry::bucket {

// The part of "HOST:PORT" before and after the last colon, without the brackets of an IPv6 address.
struct HostAndPort {
  std::string host, port;
};
// kInvalidArgument: no numeric address, or no port from 1 to 65535.
Result<HostAndPort> ParseListen(const std::string& listen);

// OK: the gateway answers GET /healthz at `listen` with 200. With TLS: it accepts connections; whether it
// has a good certificate is for its clients to judge. Takes at most `patience`.
Status ProbeGateway(const std::string& listen, bool tls, std::chrono::milliseconds patience);

}  // namespace quarry::bucket
