#include "daemon/process/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/unique_fd.h"

namespace quarry::daemon {
namespace {

using Environment = std::map<std::string, std::string>;

std::string Value(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::optional<int64_t> Number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

Notifier Notifier::From(const Environment& environment, int self) {
  const std::string pid = Value(environment, "WATCHDOG_PID");
  const auto limit = Number(Value(environment, "WATCHDOG_USEC"));
  const bool is_ours = pid.empty() || Number(pid) == self;
  if (!is_ours || !limit.has_value() || *limit <= 0) {
    return Notifier(Value(environment, "NOTIFY_SOCKET"));
  }
  return Notifier(Value(environment, "NOTIFY_SOCKET"), std::chrono::microseconds(*limit));
}

bool Notifier::Send(std::string_view message) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) {
    return false;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') {
    address.sun_path[0] = '\0';
  }
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd.valid() &&
         sendto(fd.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&address), length) == static_cast<ssize_t>(message.size());
}

}  // namespace quarry::daemon
