// Waits for SIGTERM and SIGINT, which stop quarryd, and for SIGHUP, which makes it read its configuration
// again.
#pragma once

#include <chrono>
#include <optional>

namespace quarry::daemon {

// Blocks these signals in the calling thread and in all threads that it creates later, and ignores SIGPIPE.
// Call it before any thread exists. Subprocess restores the default dispositions for its children.
void BlockStopSignals();

// Waits for one of the two that stop, and returns its number.
int WaitForStopSignal();
// The same, or SIGHUP.
int WaitForSignal();
// As WaitForStopSignal, for at most `limit`; nullopt if no signal came. Another signal may end the wait
// early.
std::optional<int> WaitForStopSignal(std::chrono::milliseconds limit);

// Whether a signal has come that no call has waited for yet. The signal stays pending.
bool StopSignalPending();

}  // namespace quarry::daemon
