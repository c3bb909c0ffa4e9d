// What an NVMe disk says of itself, asked through libnvme: one log page of the controller's, and the
// namespace's identification. Reading changes nothing in the disk.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "udev/disk_health.h"

namespace quarry::udev {

// As the disk sends them.
using SmartPage = std::array<std::byte, 512>;       // SMART / Health Information, log page 02h
using NamespacePage = std::array<std::byte, 4096>;  // Identify Namespace, CNS 00h

// What both say together. Counters of 128 bits are cut off at 64. Pure.
DiskHealth DecodeHealth(const SmartPage& smart, const NamespacePage& name_space);

// No timeout of our own: an admin command that runs into one has the kernel reset the whole controller, which
// is for the kernel's own limit (nvme_core.admin_timeout, 60 s) to decide.
class NvmeHealth final : public DiskHealthApi {
 public:
  // `numbers`: where sysfs lists block devices by number.
  explicit NvmeHealth(std::string numbers = "/sys/dev/block") : numbers_(std::move(numbers)) {}

  Result<std::optional<DiskHealth>> Read(const std::string& node) override;

 private:
  const std::string numbers_;
};

}  // namespace quarry::udev
