// Reports the start and the stop to a service manager, and that quarryd still works: the protocol of
// sd_notify(3), one datagram per message.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace quarry::daemon {

class Notifier {
 public:
  // `socket` is the value of NOTIFY_SOCKET: a path, or '@' and an abstract name. Empty: there is no service
  // manager to notify. `watchdog`: how long the service manager waits for the next "WATCHDOG=1" before it
  // ends quarryd; nullopt: it does not wait for any.
  explicit Notifier(std::string socket, std::optional<std::chrono::microseconds> watchdog = std::nullopt)
      : socket_(std::move(socket)), watchdog_(watchdog) {}

  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, as sd_watchdog_enabled(3) does. A limit that does
  // not parse, or that is for another process than `self`, counts as none. Pure.
  static Notifier From(const std::map<std::string, std::string>& environment, int self);

  // Sends "READY=1", "STOPPING=1" or "WATCHDOG=1". Best effort: quarryd also runs under a service manager
  // that does not listen. False if the message could not be sent.
  bool Send(std::string_view message) const;

  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace quarry::daemon
