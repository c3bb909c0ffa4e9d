// SIGTERM and SIGINT as something to wait for.
#pragma once

#include <chrono>
#include <optional>

namespace quarry::daemon {

// Blocks both in the calling thread and in all that it makes later, and ignores SIGPIPE. Call it before any
// thread exists. Children of Subprocess get default dispositions again.
void BlockStopSignals();

// Waits for one of the two: its number.
int WaitForStopSignal();
// The same, at most `limit`; nullopt if none came.
std::optional<int> WaitForStopSignal(std::chrono::milliseconds limit);

// Whether one came and was not waited for yet; it stays.
bool StopSignalPending();

}  // namespace quarry::daemon
