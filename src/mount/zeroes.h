// Whether a device reads as zeroes in sampled places. libblkid finds signatures only. A database on the raw
// disk, or a plain dm-crypt device, has none.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::mount {

struct Sample {
  Bytes offset, length;
  bool operator==(const Sample&) const = default;
};

// The places to sample on a device of this size: its first and last MiB and, evenly spread between them, 62
// places of 64 KiB. A small device is sampled completely. The samples are in order, do not repeat, and are
// multiples of 4 KiB except at the device's end. Pure.
std::vector<Sample> SamplesOf(Bytes size);

// The first byte in the samples that is not zero; nullopt if all are zero. Bypasses the page cache (O_DIRECT
// is set on `fd`, if its file supports that). kTimeout: the device was not read by `deadline`. A device that
// does not answer at all blocks the caller until it does.
Result<std::optional<Bytes>> FindNonZero(int fd, Bytes size, std::chrono::steady_clock::time_point deadline);

}  // namespace quarry::mount
