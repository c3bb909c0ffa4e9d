#include "lvm/fresh/device_events.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace quarry::lvm {
namespace {

// The kernel's own messages. udevd's use another group.
constexpr unsigned kKernelGroup = 1;
// UEVENT_BUFFER_SIZE of the kernel is 2 KiB.
constexpr size_t kLongest = 8192;

}  // namespace

// "add@/devices/…", then KEY=VALUE entries, each ended by a NUL.
std::string_view DeviceOfEvent(std::string_view message) {
  bool block = false;
  bool gone = false;
  std::string_view name;
  while (!message.empty()) {
    const std::string_view field = message.substr(0, message.find('\0'));
    message.remove_prefix(std::min(field.size() + 1, message.size()));
    block = block || field == "SUBSYSTEM=block";
    gone = gone || field == "ACTION=remove";
    constexpr std::string_view kName = "DEVNAME=";
    if (field.starts_with(kName)) {
      name = field.substr(kName.size());
    }
  }
  return block && !gone ? name : std::string_view();
}

Result<DeviceEvents> DeviceEvents::Open() {
  UniqueFd fd(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  if (!fd.valid()) {
    return ErrnoError("a socket for the kernel's device events");
  }
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError("listening for the kernel's device events");
  }
  return DeviceEvents(std::move(fd));
}

bool DeviceEvents::Any(const std::function<bool(std::string_view device)>& counts) {
  bool any = false;
  std::array<char, kLongest> buffer{};
  while (true) {
    sockaddr_nl from{};
    socklen_t size = sizeof(from);
    const ssize_t n =
        recvfrom(socket_.get(), buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == ENOBUFS) {
      any = true;
      continue;
    }
    if (n < 0) {
      return any || errno != EAGAIN;  // a broken socket reports nothing, so it is better to search
    }
    // Messages of any other sender (only root can send) are ignored.
    const std::string_view device =
        from.nl_pid == 0 ? DeviceOfEvent({buffer.data(), static_cast<size_t>(n)}) : std::string_view();
    any = any || (!device.empty() && counts(device));
  }
}

}  // namespace quarry::lvm
