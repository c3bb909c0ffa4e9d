#include "dm/block_raid_legs.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "dm/pv_device.h"
#include "dm/raid_superblock.h"

namespace quarry::dm {
namespace {

struct alignas(kRaidSuperblock) Block {
  std::array<std::byte, kRaidSuperblock> bytes{};
};

Status ReadBlock(int fd, const EraseRange& place, Block& block) {
  const ssize_t n = pread(fd, block.bytes.data(), block.bytes.size(), static_cast<off_t>(place.offset.value));
  if (n < 0) {
    return ErrnoError(fmt::format("reading a raid superblock of {}", place.device));
  }
  if (static_cast<size_t>(n) != block.bytes.size()) {
    return Error(Code::kIo, fmt::format("{} ends within a raid superblock", place.device));
  }
  return Ok();
}

}  // namespace

Result<RaidSuperblock> BlockRaidLegs::Read(const EraseRange& place) {
  QUARRY_ASSIGN(const UniqueFd fd, OpenPvRange(place, O_DIRECT));
  Block block;
  QUARRY_TRY(ReadBlock(fd.get(), place, block));
  return ParseRaidSuperblock(block.bytes).Context(place.device);
}

Status BlockRaidLegs::Write(const EraseRange& place, const RaidSuperblock& was,
                            const std::vector<bool>& failed, bool resync) {
  QUARRY_ASSIGN(const UniqueFd fd, OpenPvRange(place, O_DIRECT));
  Block block;
  QUARRY_TRY(ReadBlock(fd.get(), place, block));
  QUARRY_ASSIGN(const RaidSuperblock now, ParseRaidSuperblock(block.bytes));
  if (now != was) {
    return Error(Code::kPrecondition, fmt::format("a raid superblock of {} has changed", place.device));
  }
  SetFailedLegs(block.bytes, failed, resync);
  const ssize_t n =
      pwrite(fd.get(), block.bytes.data(), block.bytes.size(), static_cast<off_t>(place.offset.value));
  if (n != static_cast<ssize_t>(block.bytes.size()) || fsync(fd.get()) != 0) {
    return ErrnoError(fmt::format("writing a raid superblock of {}", place.device));
  }
  return Ok();
}

}  // namespace quarry::dm
