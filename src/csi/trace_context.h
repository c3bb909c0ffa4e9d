// The id of a call, from the caller's trace context (W3C, "Trace Context", section 3.2) or made here. Pure
// except for the random number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quarry::csi {

// The metadata key in which a gRPC client sends its trace context.
inline constexpr const char* kTraceParent = "traceparent";

// The trace id, 32 hexadecimal digits, of "00-<trace id>-<parent id>-<flags>". nullopt: malformed, or an id
// of zeroes. A later version may have more fields.
std::optional<std::string> ParseTraceParent(std::string_view text);

// 32 random hexadecimal digits, not all of them 0.
std::string NewTraceId();

}  // namespace quarry::csi
