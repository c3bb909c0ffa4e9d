// One gRPC call by name, with JSON in and out: for a person who wants to talk to quarryd after the demo.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::demo {

// method: "csi.v1.Controller/GetCapacity", or "Controller/GetCapacity". Returns the response as JSON.
// kNotFound: no such method. kInvalidArgument: not a request of it. kUnavailable: the call failed; the
// message says how.
Result<std::string> CallByName(const std::string& socket, const std::string& method, const std::string& json);

}  // namespace quarry::demo
