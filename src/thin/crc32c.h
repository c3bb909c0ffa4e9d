// CRC-32C (Castagnoli), as the kernel checks blocks of metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quarry::thin {

// Begins with all ones and, unlike the usual CRC-32C, does not invert the result: crc32c(~0, …) of the
// kernel.
uint32_t KernelCrc32c(std::span<const std::byte> bytes);
// The same on a processor without an instruction for it.
uint32_t KernelCrc32cByTables(std::span<const std::byte> bytes);

}  // namespace quarry::thin
