// One HTTP request to the gateway, with or without TLS. Why not an HTTP library: those of Debian 12 keep a
// time limit for each read only, and hide errno, which says whether the gateway listens at all.
#pragma once

#include <string>
#include <string_view>

#include "base/call.h"
#include "base/result.h"

namespace quarry::bucket {

// A numeric address and a port.
struct HostAndPort {
  std::string host, port;
};

// Sends `request` on a new connection and returns the answer, up to its end or its first 4 KiB. With `tls`
// the server must speak TLS 1.2 or later. Its certificate is not verified: clients do that, and they know the
// name that it must have. kTimeout: `call` ended before the answer came; the message says while doing what.
// An error of connect(2) has its errno: ECONNREFUSED means that nothing listens. With TLS, SIGPIPE must be
// ignored.
Result<std::string> AskOnce(const HostAndPort& to, bool tls, std::string_view request, const Call& call);

}  // namespace quarry::bucket
