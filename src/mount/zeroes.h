// Whether a device reads as zeroes where one looks. libblkid knows signatures; a database on the raw disk or
// a plain dm-crypt has none.
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

// Where to look on a device of this size: its first and last MiB and 62 places of 64 KiB between, evenly
// spread; all of a small one. In order, none twice, multiples of 4 KiB but for the device's end. Pure.
std::vector<Sample> SamplesOf(Bytes size);

// The first byte in the samples that is not zero; nullopt: there is none. Reads past the page cache (O_DIRECT
// is set on `fd`, if its file can do that). kTimeout: the device was not read by `deadline`; one that does
// not answer at all holds the caller up for as long.
Result<std::optional<Bytes>> FindNonZero(int fd, Bytes size, std::chrono::steady_clock::time_point deadline);

}  // namespace quarry::mount
