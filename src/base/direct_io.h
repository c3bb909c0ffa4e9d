// Reads and writes of block devices past the page cache (open(2), O_DIRECT), and of whole pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/result.h"

namespace quarry {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using DirectBuffer = std::unique_ptr<std::byte, FreeMemory>;

// Alignment of memory, offsets and lengths that O_DIRECT accepts on every block device.
inline constexpr size_t kDirectAlignment = 4096;

// nullptr: there is no memory. `size`: a multiple of kDirectAlignment.
DirectBuffer MakeDirectBuffer(size_t size);

// Sets O_DIRECT on an open descriptor. OK if its file does not support that (EINVAL): then the page cache is
// used.
Status BypassPageCache(int fd);

// Transfers all of `memory`, however many system calls that takes. Less only at the end of the file: returns
// the number of bytes. Errors of pread(2) and pwrite(2), naming the size and the offset. Thread-safe.
Result<size_t> ReadWhole(int fd, std::span<std::byte> memory, uint64_t offset);
Result<size_t> WriteWhole(int fd, std::span<const std::byte> memory, uint64_t offset);

}  // namespace quarry
