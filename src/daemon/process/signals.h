// Waits for the signals that stop quarryd, and for those that make it read its configuration again.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

namespace quarry::daemon {

// What SIGHUP means: a service manager's "read the configuration again", or the end of the terminal in which
// a person started quarryd.
enum class Hangup { kReload, kStop };
// kStop if the process has a controlling terminal and does not ignore SIGHUP (as under nohup).
Hangup MeaningOfHangup();

// The process sends it to itself to wake WaitForSignal().
inline constexpr int kWakeSignal = SIGUSR1;

// Blocks these signals in the calling thread and in all threads that it creates later, and ignores SIGPIPE.
// Call it before any thread exists. Subprocess restores the default dispositions for its children.
void BlockStopSignals(Hangup hangup);

// Waits for a signal that stops (SIGTERM, SIGINT, SIGHUP if it stops), and returns its number.
int WaitForStopSignal();
// The same, or kWakeSignal, or SIGHUP in any case.
int WaitForSignal();
// Waits for SIGTERM or SIGINT, for at most `limit`; nullopt if no signal came. Another signal may end the
// wait early. A terminal that ends may send SIGHUP twice, which is no sign of haste.
std::optional<int> WaitForStopSignal(std::chrono::milliseconds limit);

// Whether a signal that stops has come that no call has waited for yet. The signal stays pending.
bool StopSignalPending();

}  // namespace quarry::daemon
