#include "daemon/process/watchdog.h"

#include <algorithm>

#include "base/call.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// A quarter: of one answer that comes late and one datagram that is lost, none ends quarryd.
constexpr int kRounds = 4;
constexpr milliseconds kLeast{1};

}  // namespace

std::jthread KeepWatchdogQuiet(const Notifier& notifier, const Logger& log,
                               std::function<bool(milliseconds)> works) {
  if (!notifier.watchdog().has_value()) {
    return {};
  }
  const milliseconds interval =
      std::max(kLeast, std::chrono::duration_cast<milliseconds>(*notifier.watchdog() / kRounds));
  return std::jthread([&notifier, &log, interval, works = std::move(works)](const std::stop_token& stop) {
    bool worked = true;
    do {
      const bool now = works(interval);
      if (now) {
        notifier.Send("WATCHDOG=1");
      } else if (worked && !stop.stop_requested()) {
        log.Error("quarryd does not answer its own calls; the service manager may end it", {});
      }
      worked = now;
    } while (Sleep(stop, interval));
  });
}

}  // namespace quarry::daemon
