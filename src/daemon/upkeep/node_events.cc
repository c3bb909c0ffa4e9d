#include "daemon/upkeep/node_events.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>

namespace quarry::daemon {
namespace {

// The argument of poll(2), rounded up so that the wait does not end too early. -1: no limit.
int TimeoutUntil(SteadyTime time) {
  if (time == SteadyTime::max()) {
    return -1;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
}

}  // namespace

Result<NodeEvents> NodeEvents::Listen(udev::UdevApi& udev) {
  QUARRY_ASSIGN(NodeEvents events, WithoutDisks());
  QUARRY_ASSIGN(events.disks_, udev.Watch());
  return events;
}

Result<NodeEvents> NodeEvents::WithoutDisks() {
  UniqueFd woken(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken.valid()) {
    return ErrnoError("eventfd");
  }
  return NodeEvents(std::move(woken));
}

void NodeEvents::Wake() const {
  (void)eventfd_write(woken_.get(), 1);
}

NodeEvents::Happened NodeEvents::Wait(const std::stop_token& stop, const Until& until) {
  const std::stop_callback wake(stop, [this] { Wake(); });
  const int disks = disks_ == nullptr ? -1 : disks_->fd();
  std::array<pollfd, 3> fds = {{{woken_.get(), POLLIN, 0}, {disks, POLLIN, 0}, {until.also, POLLIN, 0}}};
  const int ready = poll(fds.data(), fds.size(), TimeoutUntil(until.time));
  if (ready > 0 && fds[0].revents == 0 && until.breath.count() > 0) {
    (void)poll(fds.data(), 1, static_cast<int>(until.breath.count()));
  }
  eventfd_t ignored = 0;
  (void)eventfd_read(woken_.get(), &ignored);
  return {.disks = disks_ == nullptr ? udev::News() : disks_->Drain(), .timed_out = ready == 0};
}

}  // namespace quarry::daemon
