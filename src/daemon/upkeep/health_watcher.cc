#include "daemon/upkeep/health_watcher.h"

#include <algorithm>
#include <utility>

#include "base/call.h"

namespace quarry::daemon {
namespace {

// How long a round waits for the disks. A healthy disk answers within milliseconds. If an unhealthy disk
// answers later, the next round uses its answer.
constexpr std::chrono::seconds kPatience{10};
// The engine may not have started yet.
constexpr std::chrono::seconds kAfterFailure{5};

// False: the round has to be repeated.
bool Round(engine::Engine& engine, const Logger& log, const std::function<void()>& tell,
           const std::stop_token& stop) {
  const auto changed = engine.disks().PollDisks(Call{.stop = stop}.Within(kPatience));
  if (!changed.has_value()) {
    log.Debug("not every disk reported its health", {{"error", changed.error().message()}});
  } else if (*changed && !stop.stop_requested()) {
    tell();
  }
  return changed.has_value();
}

}  // namespace

std::jthread WatchHealth(engine::Engine& engine, const Logger& log, std::chrono::seconds interval,
                         std::function<void()> tell) {
  return std::jthread([&engine, &log, interval, tell = std::move(tell)](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto pause = Round(engine, log, tell, stop) ? interval : std::min(interval, kAfterFailure);
      (void)Sleep(stop, pause);
    }
  });
}

}  // namespace quarry::daemon
