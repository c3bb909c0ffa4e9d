#include "thin/block_check.h"

#include <fmt/format.h>

#include "base/little_endian.h"
#include "thin/crc32c.h"

namespace quarry::thin {

Status CheckBlock(std::span<const std::byte, kBlockSize> bytes, uint64_t block, uint64_t number,
                  uint32_t salt) {
  constexpr size_t kChecksumSize = 4;
  const auto stored = static_cast<uint32_t>(little_endian::Load(bytes, 0, kChecksumSize));
  const uint32_t actual = KernelCrc32c(bytes.subspan(kChecksumSize)) ^ salt;
  if (stored != actual) {
    return Error(Code::kCorrupt,
                 fmt::format("metadata block {}: its checksum is {:#010x}, its bytes give {:#010x}", block,
                             stored, actual));
  }
  if (number != block) {
    return Error(Code::kCorrupt,
                 fmt::format("metadata block {}: it says that it is block {}", block, number));
  }
  return Ok();
}

}  // namespace quarry::thin
