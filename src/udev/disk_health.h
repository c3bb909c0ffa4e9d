// The seam to what a disk says of its own state: wear, spare room, errors. Only NVMe disks are asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace quarry::udev {

// Bits of DiskHealth::critical_warning (NVMe base specification, SMART / Health Information log page).
enum CriticalWarning : uint8_t {
  kSpareLow = 1 << 0,             // the spare blocks are below the disk's own threshold
  kTemperature = 1 << 1,          // too hot or too cold
  kReliabilityDegraded = 1 << 2,  // too many media or internal errors
  kReadOnlyMedia = 1 << 3,        // it takes no more writes
  kBackupFailed = 1 << 4,         // of its volatile memory
};

struct DiskHealth {
  uint8_t critical_warning = 0;
  uint32_t available_spare = 100;    // percent of the spare blocks that are left
  uint32_t spare_threshold = 0;      // percent; below it the disk calls itself critical
  uint32_t percentage_used = 0;      // of the life that the vendor expects; up to 255
  int32_t temperature = 0;           // °C
  uint64_t media_errors = 0;         // data that it could not give back; as all counters, of its whole life
  uint64_t unsafe_shutdowns = 0;     // power went without notice
  bool deallocated_is_zero = false;  // what was discarded reads as zeroes, and is specified to
  // What writes and discards should be multiples of. nullopt: it does not say.
  std::optional<Bytes> write_granularity, discard_granularity;

  bool operator==(const DiskHealth&) const = default;
};

// Thread-safe.
class DiskHealthApi {
 public:
  virtual ~DiskHealthApi() = default;
  // Of the disk at `node`, or on which the partition at `node` is. nullopt: it is of no kind that is asked.
  // kNotFound: there is nothing at `node`. kIo, with the disk's or the kernel's own words: no answer.
  // Waits as long as the kernel waits for the disk, a minute or more: nobody is to be kept waiting for it.
  virtual Result<std::optional<DiskHealth>> Read(const std::string& node) = 0;
};

}  // namespace quarry::udev
