// Tells the service manager's watchdog that quarryd works.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/log.h"
#include "daemon/process/notify.h"

namespace quarry::daemon {

// On a thread of its own, calls `works` four times in each limit of the watchdog, the first time at once, and
// sends "WATCHDOG=1" each time that it returns true. `works` gets the time in which it should return. While
// it does not return, or returns false, nothing is sent, and the service manager ends quarryd at its limit.
// The first such answer in a row is logged.
//
// `works` must not wait for a disk or for an LVM command: those may take any time in a healthy quarryd.
//
// Returns a thread that has ended if the service manager has no watchdog. A stop waits for `works` to return.
// The arguments outlive the thread.
std::jthread KeepWatchdogQuiet(const Notifier& notifier, const Logger& log,
                               std::function<bool(std::chrono::milliseconds)> works);

}  // namespace quarry::daemon
