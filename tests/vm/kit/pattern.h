// Bytes that can be told from any other bytes: written through a path, read back past the cache, compared.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace quarry::vm {

// Writes `length` bytes (a multiple of 4096) decided by `seed` at `offset`, creating a regular file where
// there is nothing (but in /dev), and flushes them to the device.
Status WritePattern(const std::string& path, uint64_t seed, uint64_t length, uint64_t offset = 0);

// Reads them back from the device, not from memory. kCorrupt naming the first offset that differs.
Status CheckPattern(const std::string& path, uint64_t seed, uint64_t length, uint64_t offset = 0);

// kCorrupt naming the first byte that is not zero.
Status CheckZero(const std::string& path, uint64_t length, uint64_t offset = 0);

// FNV-1a of the pattern: something short to show for it.
std::string PatternDigest(uint64_t seed, uint64_t length);

}  // namespace quarry::vm
