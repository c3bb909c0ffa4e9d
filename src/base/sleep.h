// Waiting for time to pass, in a thread that may be asked to end. Thread-safe.
#pragma once

#include <chrono>
#include <stop_token>

namespace quarry {

// Sleeps for `time` on the steady clock, or until `stop` is requested. True if no stop was requested.
bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time);

}  // namespace quarry
