#include "thin/block_source.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <utility>

#include <fmt/format.h>

#include "base/direct_io.h"

namespace quarry::thin {
namespace {

Result<uint64_t> SizeOf(int fd, const std::string& path) {
  struct stat status{};
  if (fstat(fd, &status) != 0) {
    return ErrnoError(path);
  }
  if (S_ISREG(status.st_mode)) {
    return static_cast<uint64_t>(status.st_size);
  }
  uint64_t size = 0;
  if (!S_ISBLK(status.st_mode)) {
    return Error(Code::kInvalidArgument, fmt::format("{}: neither a file nor a block device", path));
  }
  if (ioctl(fd, BLKGETSIZE64, &size) != 0) {
    return ErrnoError(fmt::format("{}: asking for its size", path));
  }
  return size;
}

}  // namespace

Result<MetadataFile> MetadataFile::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return ErrnoError(path);
  }
  QUARRY_ASSIGN(const uint64_t size, SizeOf(fd.get(), path));
  QUARRY_TRY(BypassPageCache(fd.get()).Context(path));
  return MetadataFile(std::move(fd), size / kBlockSize);
}

Status MetadataFile::Read(uint64_t first, std::span<std::byte> memory) {
  QUARRY_ASSIGN(const size_t size, ReadWhole(fd_.get(), memory, first * kBlockSize));
  if (size != memory.size()) {
    return Error(Code::kIo,
                 fmt::format("the file or device ends before block {}", first + size / kBlockSize));
  }
  return Ok();
}

Result<std::shared_ptr<BlockSource>> OpenMetadataDevice(const std::string& path) {
  auto file = MetadataFile::Open(path);
  if (!file.has_value()) {
    const bool absent = file.error().code() == Code::kNotFound;
    return std::move(file.error()).As(absent ? Code::kUnavailable : file.error().code());
  }
  return std::shared_ptr<BlockSource>(std::make_shared<MetadataFile>(std::move(*file)));
}

}  // namespace quarry::thin
