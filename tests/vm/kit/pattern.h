// Bytes that differ from all other bytes: written through a path, read back past the cache, compared.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace quarry::vm {

// Writes `length` bytes (a multiple of 4096), decided by `seed`, at `offset`, and flushes them to the device.
// Creates a regular file if there is none, except in /dev.
Status WritePattern(const std::string& path, uint64_t seed, uint64_t length, uint64_t offset = 0);

// Reads the bytes back from the device, not from memory. kCorrupt names the first offset that differs.
Status CheckPattern(const std::string& path, uint64_t seed, uint64_t length, uint64_t offset = 0);

// kCorrupt names the first byte that is not zero.
Status CheckZero(const std::string& path, uint64_t length, uint64_t offset = 0);

// FNV-1a of the pattern: a short text to show.
std::string PatternDigest(uint64_t seed, uint64_t length);

}  // namespace quarry::vm
