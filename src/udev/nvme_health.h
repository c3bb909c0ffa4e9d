// Health of an NVMe disk, through libnvme: one log page of the controller, and the identification of the
// namespace. Reading changes nothing on the disk.
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

// Combines both pages. 128-bit counters saturate at 64 bits. Pure.
DiskHealth DecodeHealth(const SmartPage& smart, const NamespacePage& name_space);

// Has no timeout of its own. An admin command that times out makes the kernel reset the whole controller, so
// only the kernel's limit applies (nvme_core.admin_timeout, 60 s).
class NvmeHealth final : public DiskHealthApi {
 public:
  // `numbers`: where sysfs lists block devices by number.
  explicit NvmeHealth(std::string numbers = "/sys/dev/block") : numbers_(std::move(numbers)) {}

  Result<std::optional<DiskHealth>> Read(const std::string& node) override;

 private:
  const std::string numbers_;
};

}  // namespace quarry::udev
