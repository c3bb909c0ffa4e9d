#include "daemon/upkeep/health_watcher.h"

#include <algorithm>
#include <utility>

#include "base/sleep.h"

namespace quarry::daemon {
namespace {

// How long a round waits for the disks. A healthy disk answers within milliseconds. If an unhealthy disk
// answers later, the next round uses its answer.
constexpr std::chrono::seconds kPatience{10};
// The engine may not have started yet.
constexpr std::chrono::seconds kAfterFailure{5};

}  // namespace

HealthWatcher::HealthWatcher(engine::Engine& engine, const Logger& log, std::chrono::seconds interval,
                             std::function<void()> changed)
    : engine_(engine),
      log_(log),
      changed_(std::move(changed)),
      thread_([this, interval](const std::stop_token& stop) { Run(stop, interval); }) {}

void HealthWatcher::Run(const std::stop_token& stop, std::chrono::seconds interval) {
  while (!stop.stop_requested()) {
    const auto pause = Round(stop) ? interval : std::min(interval, kAfterFailure);
    (void)Sleep(stop, pause);
  }
}

bool HealthWatcher::Round(const std::stop_token& stop) {
  Call call = CallWithin(kPatience);
  call.stop = stop;
  const auto changed = engine_.disks().PollDisks(call);
  if (!changed.has_value()) {
    log_.Debug("not every disk reported its health", {{"error", changed.error().message()}});
  } else if (*changed && !stop.stop_requested()) {
    changed_();
  }
  return changed.has_value();
}

}  // namespace quarry::daemon
