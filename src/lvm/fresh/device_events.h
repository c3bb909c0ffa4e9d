// Learns from the kernel's events (NETLINK_KOBJECT_UEVENT) that block devices appeared or changed. Reads no
// device.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::lvm {

// The name of the block device that a kernel message is about ("nvme0n1", "dm-3"). Empty if the message is
// not about a block device, or is about a removed device: Quarry notices a removed disk when it reads the
// disk. Pure.
std::string_view DeviceOfEvent(std::string_view message);

// For one thread at a time.
class DeviceEvents {
 public:
  // Listens from now on; earlier events are not seen. Fails where sockets of this family are not available.
  static Result<DeviceEvents> Open();

  // Takes all events since the last call, without waiting. True if `counts` returns true for one of them, or
  // if the kernel dropped events because there were too many.
  bool Any(const std::function<bool(std::string_view device)>& counts);

 private:
  explicit DeviceEvents(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace quarry::lvm
