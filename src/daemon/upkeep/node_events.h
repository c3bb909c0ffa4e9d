// Waits for what the watchers of disks react to: the kernel's events of disks, a call of Wake(), a stop.
//
// Each watcher has an object of its own, and with it a netlink socket of its own. A repair round may take
// minutes, and joining disks seconds. Neither may delay the other, so both need a thread. A third thread that
// hands events to both would only copy events from one queue to two others. The kernel does that already: it
// delivers each event to every socket and keeps it there while the thread is busy. If it has to drop events
// (ENOBUFS), the monitor reports that a disk came and went, so the watcher looks at the disks once more
// (udev_api.h).
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <utility>

#include "base/call.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "udev/udev_api.h"

namespace quarry::daemon {

// Wait() is for one thread, Wake() for any. A move is allowed only before other threads know the object.
class NodeEvents {
 public:
  // Listens to events of disks from now on. kUnavailable, kIo: the kernel reports none.
  static Result<NodeEvents> Listen(udev::UdevApi& udev);
  // Listens to no events of disks. Wake(), a stop and `until` still end a wait.
  static Result<NodeEvents> WithoutDisks();

  // Ends the present wait. If nothing waits, the next wait ends at once.
  void Wake() const;

  struct Until {
    SteadyTime time = SteadyTime::max();  // max(): no limit
    int also = -1;                        // a descriptor whose POLLIN ends the wait too; -1: none
    // After an event, the wait goes on for this time, because events come in bursts. Wake() and a stop end it
    // at once.
    std::chrono::milliseconds breath{0};
  };
  struct Happened {
    udev::News disks;        // since the last wait
    bool timed_out = false;  // `until.time` came first
  };
  // Returns after an event, after Wake(), when a stop is requested, or at `until.time`.
  Happened Wait(const std::stop_token& stop, const Until& until);

 private:
  explicit NodeEvents(UniqueFd woken) : woken_(std::move(woken)) {}

  std::unique_ptr<udev::Monitor> disks_;  // may be nullptr
  UniqueFd woken_;                        // an eventfd
};

}  // namespace quarry::daemon
