#include "daemon/process/signals.h"

#include <pthread.h>

#include <cerrno>
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

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int WaitForStopSignal() {
  const sigset_t set = StopSignals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  return signal;
}

std::optional<int> WaitForStopSignal(std::chrono::milliseconds limit) {
  const sigset_t set = StopSignals();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return std::nullopt;
    }
    const timespec timeout{.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
    const int signal = sigtimedwait(&set, nullptr, &timeout);
    if (signal > 0) {
      return signal;
    }
    if (errno != EINTR && errno != EAGAIN) {
      return std::nullopt;
    }
  }
}

bool StopSignalPending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

}  // namespace quarry::daemon
