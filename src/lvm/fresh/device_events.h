// Whether block devices came, went or changed, told by the kernel (NETLINK_KOBJECT_UEVENT) and not by
// looking.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::lvm {

// The name of the block device that a message of the kernel is about ("nvme0n1", "dm-3"); empty if it is
// about none, or about one that is gone: a disk that goes is missed where it is read. Pure.
std::string_view DeviceOfEvent(std::string_view message);

// For one thread at a time.
class DeviceEvents {
 public:
  // Listens from now on; whatever happened before is not told. Fails where a socket of this family cannot be
  // had.
  static Result<DeviceEvents> Open();

  // Takes all events since the last call, without waiting. True if `counts` holds for one of them, or if so
  // many came that the kernel dropped some.
  bool Any(const std::function<bool(std::string_view device)>& counts);

 private:
  explicit DeviceEvents(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace quarry::lvm
