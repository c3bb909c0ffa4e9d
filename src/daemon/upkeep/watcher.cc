#include "daemon/upkeep/watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "dm/dm_events.h"

namespace quarry::daemon {
namespace {

using engine::RepairCause;
using std::chrono::milliseconds;

// Disks and legs are checked at least this often, because some changes cause no event and some systems report
// no events.
constexpr milliseconds kLook{30'000};
// The watcher waits this long after an event, because events come in bursts: one create causes several.
constexpr milliseconds kBreath{250};

SteadyTime NextLook(const Result<engine::RepairReport>& report, const LookSchedule& looks) {
  const SteadyTime now = std::chrono::steady_clock::now();
  SteadyTime next = std::min(now + kLook, looks.due().value_or(SteadyTime::max()));
  if (report.has_value() && report->next.has_value()) {
    next = std::min(next, now + *report->next);
  }
  return next;
}

}  // namespace

Result<std::unique_ptr<Watcher>> Watcher::Start(engine::Engine& engine, udev::UdevApi& udev,
                                                const Logger& log) {
  UniqueFd woken(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken.valid()) {
    return ErrnoError("eventfd");
  }
  auto disks = udev.Watch();
  if (!disks.has_value()) {
    log.Warning("no events from the kernel: disks are checked every 30 s only",
                {{"detail", disks.error().message()}});
  }
  return std::unique_ptr<Watcher>(
      new Watcher(engine, disks.has_value() ? std::move(*disks) : nullptr, log, std::move(woken)));
}

Watcher::Watcher(engine::Engine& engine, std::unique_ptr<udev::Monitor> disks, const Logger& log,
                 UniqueFd woken)
    : engine_(engine),
      disks_(std::move(disks)),
      log_(log),
      woken_(std::move(woken)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {
  engine_.upkeep().OnWork([this] { (void)eventfd_write(woken_.get(), 1); });
}

Watcher::~Watcher() {
  engine_.upkeep().OnWork({});
  thread_.request_stop();
  (void)eventfd_write(woken_.get(), 1);
}

void Watcher::Run(const std::stop_token& stop) {
  std::optional<dm::DmEvents> events;
  bool told = false;
  RepairCause cause = RepairCause::kDisks;
  while (!stop.stop_requested()) {
    if (!events.has_value()) {
      if (auto opened = dm::DmEvents::Open(); opened.has_value()) {
        events.emplace(std::move(*opened));
      } else if (!std::exchange(told, true)) {
        log_.Warning("no events from device-mapper: RAID legs are checked every 30 s only",
                     {{"detail", opened.error().message()}});
      }
    } else if (!events->Arm().has_value()) {
      events.reset();
    }
    const auto report = engine_.upkeep().Repair(cause, Call{.stop = stop});
    if (stop.stop_requested()) {
      return;
    }
    cause = Wait(events.has_value() ? events->fd() : -1, NextLook(report, looks_));
  }
}

// Other events never delay a look at the disks. Such a look is due every 30 s, and a few times after disks
// arrive or leave.
RepairCause Watcher::Wait(int device_mapper, SteadyTime until) {
  const int disks = disks_ == nullptr ? -1 : disks_->fd();
  std::array<pollfd, 3> fds = {{{woken_.get(), POLLIN, 0}, {disks, POLLIN, 0}, {device_mapper, POLLIN, 0}}};
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  const int ready =
      poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLook.count())));
  if (ready > 0 && fds[0].revents == 0) {
    (void)poll(fds.data(), 1, static_cast<int>(kBreath.count()));
  }
  eventfd_t ignored = 0;
  (void)eventfd_read(woken_.get(), &ignored);
  const SteadyTime now = std::chrono::steady_clock::now();
  const udev::News news = disks_ == nullptr ? udev::News() : disks_->Drain();
  if (news.came || news.went) {
    looks_.DiskCame(now);
  }
  const bool due = looks_.due().has_value() && *looks_.due() <= now;
  if (due) {
    looks_.Looked(now, false);
  }
  if (due || ready == 0 || now - looked_ >= kLook) {
    looked_ = now;
    return RepairCause::kDisks;
  }
  return RepairCause::kEvent;
}

}  // namespace quarry::daemon
