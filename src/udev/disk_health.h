// The seam to a disk's own health report: wear, spare blocks, errors. NVMe, SATA and SAS disks have one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace quarry::udev {

// Bits of DiskHealth::critical_warning (NVMe base specification, SMART / Health Information log page).
enum CriticalWarning : uint8_t {
  kSpareLow = 1 << 0,             // spare blocks are below the disk's own threshold
  kTemperature = 1 << 1,          // too hot or too cold
  kReliabilityDegraded = 1 << 2,  // too many media or internal errors
  kReadOnlyMedia = 1 << 3,        // the disk accepts no more writes
  kBackupFailed = 1 << 4,         // the device that backs up its volatile memory failed
};

enum class HealthSource { kNvme, kAta, kScsi };

// SATA and SAS disks set two of the warnings: kReliabilityDegraded if they report as a whole that they fail,
// and kTemperature. They have none of the figures of spare blocks, media errors and shutdowns.
struct DiskHealth {
  HealthSource source = HealthSource::kNvme;
  uint8_t critical_warning = 0;
  uint32_t available_spare = 100;  // percent of the spare blocks left
  uint32_t spare_threshold = 0;    // percent; below it the disk reports a critical warning
  uint32_t percentage_used = 0;    // of the vendor's expected life; up to 255
  int32_t temperature = 0;         // °C
  // How often the disk found data that it could not recover. All counters count over the disk's whole life.
  uint64_t media_errors = 0;
  uint64_t unsafe_shutdowns = 0;     // power was lost without notice
  bool deallocated_is_zero = false;  // discarded blocks read as zeroes, as the disk specifies
  // Writes and discards should be multiples of these sizes. nullopt: the disk does not say.
  std::optional<Bytes> write_granularity, discard_granularity;

  // Of SATA and SAS disks. nullopt: the disk does not say.
  std::optional<uint64_t> reallocated_sectors, pending_sectors, uncorrectable_sectors, grown_defects;
  std::string failure;          // in what words the disk reports that it fails; empty: it does not
  bool has_wear = true;         // percentage_used is known
  bool has_temperature = true;  // temperature is known

  bool operator==(const DiskHealth&) const = default;
};

// Thread-safe.
class DiskHealthApi {
 public:
  virtual ~DiskHealthApi() = default;
  // Reads the health of the disk at `node`, or of the disk that has the partition at `node`. nullopt: not a
  // supported kind of disk. kNotFound: nothing at `node`. kIo: the disk could not be opened, did not answer,
  // or answered with an error. The message has the disk's status or the kernel's error. Waits as long as the
  // kernel waits for the disk, a minute or more, so no other work may wait for this call.
  virtual Result<std::optional<DiskHealth>> Read(const std::string& node) = 0;
};

}  // namespace quarry::udev
