// Asks the gateway whether it serves.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bucket/probe_connection.h"

namespace quarry::bucket {

// The bucket that the probe asks for. No bucket has this name, because S3 reserves its beginning.
inline constexpr std::string_view kProbedBucket = "xn--quarry-probe";

// The part of "HOST:PORT" before and after the last colon, without the brackets of an IPv6 address.
// kInvalidArgument: no numeric address, or no port from 1 to 65535.
Result<HostAndPort> ParseListen(const std::string& listen);

// OK: the gateway at `listen` answers a request for a bucket. Like each request for a bucket it needs one of
// the slots that versitygw has (--concurrency), for which versitygw lets it wait. kBusy: the gateway is well,
// but all slots are taken. kTimeout: it does not answer. kUnavailable: it does not listen, or another program
// answers. Each question takes at most `patience`, and there may be two. With TLS, SIGPIPE must be ignored.
Status ProbeGateway(const std::string& listen, bool tls, std::chrono::milliseconds patience);

}  // namespace quarry::bucket
