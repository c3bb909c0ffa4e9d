// Unmounts, and names the processes that prevent it.
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mount/kernel_mount.h"
#include "mount/process_scan.h"

namespace quarry::mount {
namespace {

using std::chrono::milliseconds;

// Many holders end within a moment: a probe by udev, a statistics call of the orchestrator.
constexpr milliseconds kPatience{1000};
constexpr milliseconds kPause{100};
constexpr size_t kMostHolders = 5;

bool Pause(const Call& call) {
  const milliseconds left = call.Remaining();
  std::this_thread::sleep_for(std::min(kPause, left));
  return call.Check("unmounting").has_value();
}

}  // namespace

Status KernelMount::Unmount(const AbsolutePath& target, const Call& call) {
  const std::string what = fmt::format("unmounting {}", target.str());
  QUARRY_TRY(call.Check(what));
  // Only the parent is opened, because a descriptor of the mount itself would keep the mount busy.
  auto parent = OpenParent(target);
  if (!parent.has_value()) {
    return parent.error().code() == Code::kNotFound ? Ok() : std::move(parent).Context(what).error();
  }
  const std::string path = ThroughFd(parent->get(), target.Name());
  const auto patience_ends = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    if (umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) {
      return Ok();
    }
    const int failure = errno;
    switch (failure) {
      case ENOENT:
      case ENOTDIR:
        return Ok();
      case EINVAL: {  // not a mount point, or one that this process may not unmount
        const auto place = Look(target);
        if (!place.has_value() || !place->mount_root) {
          return Ok();
        }
        return Error(Code::kPrecondition, fmt::format("{}: it is locked by another mount namespace", what))
            .WithErrno(EINVAL);
      }
      case EBUSY:
        if (std::chrono::steady_clock::now() >= patience_ends || !Pause(call)) {
          return BusyError(target).Context(what);
        }
        break;
      case EPERM:
        return ErrnoError(what, failure).As(Code::kUnavailable);
      default:
        return ErrnoError(what, failure);
    }
  }
}

Error KernelMount::BusyError(const AbsolutePath& target) {
  std::vector<std::string> holders;
  uint64_t mount_id = 0;
  DeviceNumber file_system;
  if (const auto place = Look(target); place.has_value() && place->mount_root) {
    mount_id = place->mount_id;
    file_system = place->file_system;
  }
  if (auto table = Mounts(); mount_id != 0 && table.has_value()) {
    for (const MountEntry& entry : table->entries()) {
      if (entry.parent_id == mount_id && holders.size() < kMostHolders) {
        holders.push_back(fmt::format("a mount at {}", entry.target));
      }
    }
  }
  if (mount_id != 0) {
    const auto processes =
        ProcessScan(config_.proc).HoldersOfMount(mount_id, file_system, kMostHolders - holders.size());
    if (processes.has_value()) {
      holders.insert(holders.end(), processes->begin(), processes->end());
    }
  }
  const std::string who =
      holders.empty() ? "an unknown user: no process that quarryd sees (maybe a loop device, swap or export)"
                      : fmt::format("{}", fmt::join(holders, ", "));
  return Error(Code::kPrecondition, fmt::format("it is in use by {}", who)).WithErrno(EBUSY);
}

}  // namespace quarry::mount
