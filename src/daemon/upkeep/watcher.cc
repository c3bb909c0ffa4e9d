#include "daemon/upkeep/watcher.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

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
                                                const Logger& log, std::string pool,
                                                std::function<void()> looked) {
  auto events = NodeEvents::Listen(udev);
  if (!events.has_value()) {
    log.Warning("no events from the kernel: disks are checked every 30 s only",
                {{"pool", pool}, {"detail", events.error().message()}});
    QUARRY_ASSIGN(events, NodeEvents::WithoutDisks());
  }
  return std::unique_ptr<Watcher>(
      new Watcher(engine, std::move(*events), log, std::move(pool), std::move(looked)));
}

Watcher::Watcher(engine::Engine& engine, NodeEvents events, const Logger& log, std::string pool,
                 std::function<void()> looked)
    : engine_(engine),
      log_(log),
      pool_(std::move(pool)),
      looked_at_(std::move(looked)),
      events_(std::move(events)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Watcher::Run(const std::stop_token& stop) {
  std::optional<dm::DmEvents> device_mapper;
  bool told = false;
  RepairCause cause = RepairCause::kDisks;
  while (!stop.stop_requested()) {
    if (!device_mapper.has_value()) {
      if (auto opened = dm::DmEvents::Open(); opened.has_value()) {
        device_mapper.emplace(std::move(*opened));
      } else if (!std::exchange(told, true)) {
        log_.Warning("no events from device-mapper: RAID legs are checked every 30 s only",
                     {{"pool", pool_}, {"detail", opened.error().message()}});
      }
    } else if (!device_mapper->Arm().has_value()) {
      device_mapper.reset();
    }
    const auto report = engine_.upkeep().Repair(cause, Call{.stop = stop}, {}, pool_);
    if (stop.stop_requested()) {
      return;
    }
    if (looked_at_) {
      looked_at_();
    }
    const auto happened = events_.Wait(stop, {.time = NextLook(report, looks_),
                                              .also = device_mapper.has_value() ? device_mapper->fd() : -1,
                                              .breath = kBreath});
    cause = CauseOf(happened);
  }
}

// Other events never delay a look at the disks. Such a look is due every 30 s, and a few times after disks
// arrive or leave.
RepairCause Watcher::CauseOf(const NodeEvents::Happened& happened) {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (happened.disks.came || happened.disks.went) {
    looks_.DiskCame(now);
  }
  const bool due = looks_.due().has_value() && *looks_.due() <= now;
  if (due) {
    looks_.Looked(now, false);
  }
  if (due || happened.timed_out || now - looked_ >= kLook) {
    looked_ = now;
    return RepairCause::kDisks;
  }
  return RepairCause::kEvent;
}

}  // namespace quarry::daemon
