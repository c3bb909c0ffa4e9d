#include "daemon/upkeep/disk_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// The search waits for its turn in the pool. Another operation may hold that turn.
constexpr milliseconds kLookLimit{60000};

}  // namespace

DiskWatcher::DiskWatcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> monitor, const Logger& log)
    : engine_(engine),
      monitor_(std::move(monitor)),
      log_(log),
      stopped_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void DiskWatcher::Run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { (void)eventfd_write(stopped_.get(), 1); });
  LookSchedule schedule;
  while (!stop.stop_requested()) {
    Wait(schedule.due());
    if (monitor_->Drain().came) {
      schedule.DiskCame(std::chrono::steady_clock::now());
    }
    const auto now = std::chrono::steady_clock::now();
    if (!stop.stop_requested() && schedule.due().has_value() && *schedule.due() <= now) {
      const bool failed = !Look(stop);
      schedule.Looked(std::chrono::steady_clock::now(), failed);
    }
  }
}

void DiskWatcher::Wait(std::optional<SteadyTime> until) {
  int timeout = -1;
  if (until.has_value()) {
    const auto left = std::chrono::ceil<milliseconds>(*until - std::chrono::steady_clock::now());
    timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLookLimit.count()));
  }
  std::array<pollfd, 2> ready{{{monitor_->fd(), POLLIN, 0}, {stopped_.get(), POLLIN, 0}}};
  (void)poll(ready.data(), ready.size(), timeout);
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
