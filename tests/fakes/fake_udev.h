// Disks without a kernel: plugged disks exist, and monitors get their events.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/faults.h"
#include "udev/udev_api.h"

namespace quarry::fakes {

// A typical disk for tests: "/dev/<name>", NVMe, blocks of 512 bytes.
udev::Disk PlainDisk(const std::string& name, const std::string& serial, Bytes size);

// Thread-safe.
class FakeUdev final : public udev::UdevApi {
 public:
  // --- The world's side. A disk of the same name is replaced.
  void Plug(udev::Disk disk);
  void Unplug(const std::string& name);

  // --- UdevApi. Faults by method name.
  Result<std::vector<udev::Disk>> Inventory() override;
  Result<std::unique_ptr<udev::Monitor>> Watch() override;
  Result<std::optional<udev::DeviceNumber>> NumberOf(const std::string& path) override;

  Faults faults;

 private:
  class FakeMonitor;
  struct Ear;
  void Tell(bool came);

  std::mutex mutex_;
  std::vector<udev::Disk> disks_;
  std::vector<std::weak_ptr<Ear>> ears_;
  uint32_t numbers_ = 0;
};

}  // namespace quarry::fakes
