#include "daemon/upkeep/disk_watcher.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "daemon/upkeep/look_schedule.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// The search waits for its turn in the pool. Another operation may hold that turn.
constexpr milliseconds kLookLimit{60000};
// How often disks that LVM refused are tried again.
constexpr milliseconds kRefusedPause{20000};

// False: the search has to be repeated. `told`: the error of the last search, which is logged once.
bool Look(engine::Engine& engine, engine::JoinScope scope, const Logger& log, std::string& told,
          const std::stop_token& stop) {
  const auto taken = engine.disks().JoinDisks(scope, Call{.stop = stop}.Within(kLookLimit));
  const std::string error = taken.has_value() ? "" : taken.error().message();
  if (!error.empty() && error != told && !stop.stop_requested()) {
    log.Warning("new disks could not be inspected yet", {{"error", error}});
  }
  told = error;
  return taken.has_value();
}

void Watch(engine::Engine& engine, NodeEvents& events, const Logger& log, const std::stop_token& stop) {
  LookSchedule schedule;
  std::string told;
  // Not from the last event: LVM's own attempt makes events.
  SteadyTime again = std::chrono::steady_clock::now() + kRefusedPause;
  while (!stop.stop_requested()) {
    const auto happened = events.Wait(stop, {.time = std::min(schedule.due().value_or(again), again)});
    const auto now = std::chrono::steady_clock::now();
    if (happened.disks.came) {
      schedule.DiskCame(now);
    }
    if (stop.stop_requested()) {
      return;
    }
    if (schedule.due().has_value() && *schedule.due() <= now) {
      const bool failed = !Look(engine, engine::JoinScope::kAll, log, told, stop);
      schedule.Looked(std::chrono::steady_clock::now(), failed);
    } else if (again <= now) {
      Look(engine, engine::JoinScope::kRefused, log, told, stop);
      again = std::chrono::steady_clock::now() + kRefusedPause;
    }
  }
}

}  // namespace

std::jthread WatchDisks(engine::Engine& engine, NodeEvents events, const Logger& log) {
  return std::jthread([&engine, events = std::move(events), &log](const std::stop_token& stop) mutable {
    Watch(engine, events, log, stop);
  });
}

}  // namespace quarry::daemon
