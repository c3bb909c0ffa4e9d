// One gRPC call by name, with JSON in and out, for calling quarryd by hand after the demo.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::demo {

// method: "csi.v1.Controller/GetCapacity", or "Controller/GetCapacity". Returns the response as JSON.
// kNotFound: no such method. kInvalidArgument: the JSON is not a request of this method. kUnavailable: the
// call failed; the message has the reason.
Result<std::string> CallByName(const std::string& socket, const std::string& method, const std::string& json);

}  // namespace quarry::demo
