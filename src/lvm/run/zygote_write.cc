// write(2) as liblvm2cmd sees it in quarry-lvm: a disk has what was written to it before its metadata header
// is replaced.
//
// To commit, LVM writes the new text of the group and then, on the same disk, the header that says where the
// text is, with nothing between them (lib/format_text/format-text.c, lib/device/bcache.c; use_aio = 0). A
// disk with a volatile cache may keep the header and lose the text when the power is cut. LVM ignores that
// copy of the metadata afterwards, and if it happens to all of them, it does not find the group any more.
//
// LVM writes blocks of 128 KiB, cut off behind what it changed. So the header is in a short write at offset
// 0, or, in a second metadata area at the end of the disk, in a short one. The disk is flushed before these,
// unless only headers at offset 0 were written since its last flush: LVM replaces a header twice.
//
// A flush that fails changes nothing: pv_flush.h decides whether a commit is durable.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace {

constexpr size_t kShort = 8192;

// Disks on which this process, a child that runs one command, has written nothing but headers since it
// flushed them.
std::vector<dev_t>& Flushed() {
  static std::vector<dev_t> disks;
  return disks;
}

void BeforeWrite(int fd, dev_t disk, off_t at, size_t size) {
  const bool is_flushed = std::ranges::find(Flushed(), disk) != Flushed().end();
  if (!is_flushed && (at == 0 || size <= kShort)) {
    (void)fdatasync(fd);
    Flushed().push_back(disk);
  }
  if (at != 0 || size > kShort) {
    std::erase(Flushed(), disk);
  }
}

}  // namespace

// Called instead of libc's by all libraries of the program.
extern "C" [[gnu::visibility("default")]] ssize_t write(int fd, const void* data, size_t size) {
  const int before = errno;
  struct stat info{};
  const off_t at = lseek(fd, 0, SEEK_CUR);
  if (at >= 0 && fstat(fd, &info) == 0 && S_ISBLK(info.st_mode)) {
    BeforeWrite(fd, info.st_rdev, at, size);
  }
  errno = before;
  return syscall(SYS_write, fd, data, size);
}
