// What every block of metadata has in its head: a checksum of the rest, and its own number.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "thin/block_source.h"

namespace quarry::thin {

// kCorrupt, naming the block, unless the checksum in the first four bytes holds and `number`, which the block
// has for itself, is `block`. `salt`: every kind of block has its own.
Status CheckBlock(std::span<const std::byte, kBlockSize> bytes, uint64_t block, uint64_t number,
                  uint32_t salt);

}  // namespace quarry::thin
