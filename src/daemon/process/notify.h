// Telling a service manager how the start goes: sd_notify(3)'s protocol, one datagram each.
#pragma once

#include <string>
#include <string_view>

namespace quarry::daemon {

class Notifier {
 public:
  // `socket` is the value of NOTIFY_SOCKET: a path, or '@' and an abstract name. Empty: nobody wants to know.
  explicit Notifier(std::string socket) : socket_(std::move(socket)) {}

  // "READY=1", "STOPPING=1", "STATUS=…", several separated by newlines. Best effort: a manager that does not
  // listen must not keep storage from working. False if it could not be sent.
  bool Send(std::string_view message) const;

 private:
  std::string socket_;
};

}  // namespace quarry::daemon
