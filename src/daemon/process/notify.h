// Reports the start and the stop to a service manager: the protocol of sd_notify(3), one datagram per
// message.
#pragma once

#include <string>
#include <string_view>

namespace quarry::daemon {

class Notifier {
 public:
  // `socket` is the value of NOTIFY_SOCKET: a path, or '@' and an abstract name. Empty: there is no service
  // manager to notify.
  explicit Notifier(std::string socket) : socket_(std::move(socket)) {}

  // Sends "READY=1" or "STOPPING=1". Best effort: quarryd also runs under a service manager that does not
  // listen. False if the message could not be sent.
  bool Send(std::string_view message) const;

 private:
  std::string socket_;
};

}  // namespace quarry::daemon
