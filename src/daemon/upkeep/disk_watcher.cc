#include "daemon/upkeep/disk_watcher.h"

#include <chrono>
#include <utility>

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// The search waits for its turn in the pool. Another operation may hold that turn.
constexpr milliseconds kLookLimit{60000};

}  // namespace

DiskWatcher::DiskWatcher(engine::Engine& engine, NodeEvents events, const Logger& log)
    : engine_(engine),
      log_(log),
      events_(std::move(events)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void DiskWatcher::Run(const std::stop_token& stop) {
  LookSchedule schedule;
  while (!stop.stop_requested()) {
    const auto happened = events_.Wait(stop, {.time = schedule.due().value_or(SteadyTime::max())});
    const auto now = std::chrono::steady_clock::now();
    if (happened.disks.came) {
      schedule.DiskCame(now);
    }
    if (!stop.stop_requested() && schedule.due().has_value() && *schedule.due() <= now) {
      const bool failed = !Look(stop);
      schedule.Looked(std::chrono::steady_clock::now(), failed);
    }
  }
}

// False: the search has to be repeated.
bool DiskWatcher::Look(const std::stop_token& stop) {
  Call call = CallWithin(kLookLimit);
  call.stop = stop;
  const auto taken = engine_.disks().JoinDisks(call);
  if (!taken.has_value() && !stop.stop_requested()) {
    log_.Warning("new disks could not be inspected yet", {{"error", taken.error().message()}});
  }
  return taken.has_value();
}

}  // namespace quarry::daemon
