#include "tests/fakes/fake_udev.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace quarry::fakes {

struct FakeUdev::Ear {
  UniqueFd fd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  udev::News news;
};

class FakeUdev::FakeMonitor final : public udev::Monitor {
 public:
  explicit FakeMonitor(std::shared_ptr<Ear> ear) : ear_(std::move(ear)) {}
  int fd() const override { return ear_->fd.get(); }
  udev::News Drain() override {
    const std::lock_guard lock(ear_->mutex);
    eventfd_t ignored = 0;
    (void)eventfd_read(ear_->fd.get(), &ignored);
    return std::exchange(ear_->news, {});
  }

 private:
  std::shared_ptr<Ear> ear_;
};

udev::Disk PlainDisk(const std::string& name, const std::string& serial, Bytes size) {
  udev::Disk disk;
  disk.name = name;
  disk.node = "/dev/" + name;
  disk.identity = "nvme." + serial;
  disk.model = "Fake NVMe";
  disk.serial = serial;
  disk.transport = "nvme";
  disk.size = size;
  disk.logical_block = disk.physical_block = Bytes{512};
  disk.links = {"/dev/disk/by-id/nvme-" + serial};
  return disk;
}

void FakeUdev::Plug(udev::Disk disk) {
  const std::lock_guard lock(mutex_);
  if (disk.number == udev::DeviceNumber{}) {
    disk.number = {259, ++numbers_};
  }
  std::erase_if(disks_, [&](const udev::Disk& other) { return other.name == disk.name; });
  disks_.push_back(std::move(disk));
  std::ranges::sort(disks_, {}, &udev::Disk::name);
  Tell(true);
}

void FakeUdev::Unplug(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(disks_, [&](const udev::Disk& disk) { return disk.name == name; });
  Tell(false);
}

// Call with mutex_ held.
void FakeUdev::Tell(bool came) {
  for (const auto& weak : ears_) {
    if (const auto ear = weak.lock(); ear != nullptr) {
      const std::lock_guard lock(ear->mutex);
      (came ? ear->news.came : ear->news.went) = true;
      (void)eventfd_write(ear->fd.get(), 1);
    }
  }
}

Result<std::vector<udev::Disk>> FakeUdev::Inventory() {
  QUARRY_TRY(faults.Check("Inventory"));
  const std::lock_guard lock(mutex_);
  return disks_;
}

Result<std::unique_ptr<udev::Monitor>> FakeUdev::Watch() {
  QUARRY_TRY(faults.Check("Watch"));
  const std::lock_guard lock(mutex_);
  const auto ear = std::make_shared<Ear>();
  ears_.push_back(ear);
  return std::unique_ptr<udev::Monitor>(new FakeMonitor(ear));
}

Result<std::optional<udev::DeviceNumber>> FakeUdev::NumberOf(const std::string& path) {
  QUARRY_TRY(faults.Check("NumberOf"));
  const std::lock_guard lock(mutex_);
  for (const udev::Disk& disk : disks_) {
    if (disk.node == path || std::ranges::find(disk.links, path) != disk.links.end()) {
      return std::optional(disk.number);
    }
  }
  return std::optional<udev::DeviceNumber>();
}

}  // namespace quarry::fakes
