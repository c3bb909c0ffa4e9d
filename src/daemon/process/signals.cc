#include "daemon/process/signals.h"

#include <fcntl.h>

#include <ctime>

#include "base/unique_fd.h"

namespace quarry::daemon {
namespace {

// Set once, before any thread exists.
Hangup g_hangup = Hangup::kReload;

sigset_t UrgentSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

sigset_t StopSignals() {
  sigset_t set = UrgentSignals();
  if (g_hangup == Hangup::kStop) {
    sigaddset(&set, SIGHUP);
  }
  return set;
}

sigset_t AllSignals() {
  sigset_t set = UrgentSignals();
  sigaddset(&set, SIGHUP);
  sigaddset(&set, kWakeSignal);
  return set;
}

int WaitFor(const sigset_t& set) {
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  return signal;
}

}  // namespace

Hangup MeaningOfHangup() {
  struct sigaction before{};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) {
    return Hangup::kReload;
  }
  // Opens only if the process has a controlling terminal.
  const UniqueFd terminal(open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return terminal.valid() ? Hangup::kStop : Hangup::kReload;
}

void BlockStopSignals(Hangup hangup) {
  g_hangup = hangup;
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
  const sigset_t set = UrgentSignals();
  const timespec timeout{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  const int signal = sigtimedwait(&set, nullptr, &timeout);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

bool StopSignalPending() {
  const sigset_t set = StopSignals();
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (sigismember(&set, signal) == 1 && sigismember(&pending, signal) == 1) {
      return true;
    }
  }
  return false;
}

}  // namespace quarry::daemon
