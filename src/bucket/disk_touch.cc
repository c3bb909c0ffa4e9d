#include "bucket/disk_touch.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace quarry::bucket {
namespace {

constexpr size_t kBlock = 4096;  // a multiple of every disk's sector
constexpr uint64_t kPlaces = 4;

}  // namespace

void TouchDisk(dev_t device) {
  // The kernel names each device of device-mapper by its minor number.
  const UniqueFd fd(open(fmt::format("/dev/dm-{}", minor(device)).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  struct stat found{};
  uint64_t size = 0;
  if (!fd.valid() || fstat(fd.get(), &found) != 0 || !S_ISBLK(found.st_mode) || found.st_rdev != device ||
      ioctl(fd.get(), BLKGETSIZE64, &size) != 0) {
    return;
  }
  alignas(kBlock) std::array<std::byte, kBlock> block{};
  for (uint64_t i = 0; i < kPlaces; ++i) {
    const uint64_t place = size / kPlaces * i / kBlock * kBlock;
    (void)pread(fd.get(), block.data(), block.size(), static_cast<off_t>(place));
  }
}

}  // namespace quarry::bucket
