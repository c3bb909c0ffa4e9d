#include "daemon/process/signals.h"

#include <csignal>
#include <ctime>

namespace quarry::daemon {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

sigset_t AllSignals() {
  sigset_t set = StopSignals();
  sigaddset(&set, SIGHUP);
  return set;
}

int WaitFor(const sigset_t& set) {
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  return signal;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = AllSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStopSignal() {
  return WaitFor(StopSignals());
}

int WaitForSignal() {
  return WaitFor(AllSignals());
}

std::optional<int> WaitForStopSignal(std::chrono::milliseconds limit) {
  const sigset_t set = StopSignals();
  const timespec timeout{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  const int signal = sigtimedwait(&set, nullptr, &timeout);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

bool StopSignalPending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

}  // namespace quarry::daemon
