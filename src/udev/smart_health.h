// Health of SATA and SAS disks, as smartmontools' program smartctl reports it. smartctl knows the many ways
// in which such disks and the adapters in front of them want to be asked. NVMe disks need none of that
// (nvme_health.h).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/subprocess.h"
#include "udev/disk_health.h"

namespace quarry::udev {

// The exit status that smartctl is asked to give for a disk that it did not wake.
inline constexpr int kAsleep = 255;

// Decodes `smartctl --json -n standby,255 -i -H -A -l ssd`. nullopt: the disk, or the adapter in front of it,
// does not report its health. kUnavailable: the disk sleeps. kIo: it did not answer; the message has
// smartctl's own. Pure.
Result<std::optional<DiskHealth>> ParseSmartctl(std::string_view json, int exit_status);

// The program on the PATH of this process; empty: it is not installed.
std::string FindSmartctl();

// Asks one disk at a time. Never wakes a disk.
class SmartHealth final : public DiskHealthApi {
 public:
  struct Config {
    std::string program;                           // empty: FindSmartctl() at each read
    std::string numbers = "/sys/dev/block";        // where sysfs lists block devices by number
    std::chrono::milliseconds fresh{600'000};      // how long one answer of a disk is reused
    std::chrono::milliseconds time_limit{60'000};  // for smartctl
  };
  explicit SmartHealth(Config config);
  SmartHealth() : SmartHealth(Config{}) {}

  // nullopt also for a disk that the kernel does not call sd…, and while smartctl is not installed.
  Result<std::optional<DiskHealth>> Read(const std::string& node) override;

 private:
  using Answer = Result<std::optional<DiskHealth>>;
  struct Known {
    std::string sequence;  // the kernel's number of the disk: another disk may get the same name
    std::chrono::steady_clock::time_point since;
    Answer answer;
  };
  Answer Ask(const std::string& program, const std::string& name);

  const Config config_;
  SpawnSubprocess subprocess_;
  Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // by kernel name
};

// Disks of every kind: each is read by the implementation for its kind.
class EveryDiskHealth final : public DiskHealthApi {
 public:
  EveryDiskHealth(std::unique_ptr<DiskHealthApi> nvme, std::unique_ptr<DiskHealthApi> smart)
      : nvme_(std::move(nvme)), smart_(std::move(smart)) {}
  Result<std::optional<DiskHealth>> Read(const std::string& node) override;

 private:
  const std::unique_ptr<DiskHealthApi> nvme_, smart_;
};

}  // namespace quarry::udev
