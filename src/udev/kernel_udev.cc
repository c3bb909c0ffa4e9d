#include "udev/kernel_udev.h"

#include <libudev.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quarry::udev {
namespace {

// After this many unreadable events in a row, the socket is not read further for now.
constexpr int kMostFailures = 16;

struct Unref {
  void operator()(::udev* context) const { udev_unref(context); }
  void operator()(udev_monitor* monitor) const { udev_monitor_unref(monitor); }
  void operator()(udev_device* device) const { udev_device_unref(device); }
};
template <typename T>
using Owned = std::unique_ptr<T, Unref>;

std::string_view Text(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

class KernelMonitor final : public Monitor {
 public:
  KernelMonitor(Owned<::udev> context, Owned<udev_monitor> monitor)
      : context_(std::move(context)), monitor_(std::move(monitor)) {}

  int fd() const override { return udev_monitor_get_fd(monitor_.get()); }

  News Drain() override {
    News news;
    for (int failures = 0; failures < kMostFailures;) {
      errno = 0;
      const Owned<udev_device> device(udev_monitor_receive_device(monitor_.get()));
      if (device != nullptr) {
        failures = 0;
        Note(device.get(), news);
      } else if (errno == EAGAIN || errno == 0) {
        return news;
      } else {
        // Events were dropped, or one was invalid, so the caller must look for changes.
        news.came = news.went = true;
        ++failures;
      }
    }
    return news;
  }

 private:
  static void Note(udev_device* device, News& news) {
    if (!IsPluggable(Text(udev_device_get_sysname(device)))) {
      return;
    }
    const std::string_view action = Text(udev_device_get_action(device));
    news.came = news.came || action == "add";
    news.went = news.went || action == "remove";
    news.changed = news.changed || action == "change";
  }

  Owned<::udev> context_;
  Owned<udev_monitor> monitor_;
};

}  // namespace

Result<std::unique_ptr<Monitor>> KernelUdev::Watch() {
  errno = 0;
  Owned<::udev> context(udev_new());
  Owned<udev_monitor> monitor(context == nullptr ? nullptr
                                                 : udev_monitor_new_from_netlink(context.get(), "kernel"));
  const bool listening =
      monitor != nullptr &&
      udev_monitor_filter_add_match_subsystem_devtype(monitor.get(), "block", "disk") >= 0 &&
      udev_monitor_enable_receiving(monitor.get()) >= 0;
  if (!listening) {
    return ErrnoError("listening for disks that come and go", errno == 0 ? ENOSYS : errno)
        .As(Code::kUnavailable);
  }
  return std::unique_ptr<Monitor>(new KernelMonitor(std::move(context), std::move(monitor)));
}

Result<std::optional<DeviceNumber>> KernelUdev::NumberOf(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ENXIO || errno == ENODEV) {
      return std::optional<DeviceNumber>();
    }
    return ErrnoError(fmt::format("looking at {}", path));
  }
  if (!S_ISBLK(status.st_mode)) {
    return std::optional<DeviceNumber>();
  }
  return std::optional(DeviceNumber{major(status.st_rdev), minor(status.st_rdev)});
}

}  // namespace quarry::udev
