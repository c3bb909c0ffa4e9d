#include "tests/unit/lvm/slow_disk.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

constexpr uint64_t kRoot = FUSE_ROOT_ID;
constexpr uint64_t kDisk = 2;
constexpr uint64_t kForever = 3600;

template <typename T>
T Body(const std::vector<std::byte>& request) {
  T body{};
  if (request.size() >= sizeof(fuse_in_header) + sizeof(T)) {
    std::memcpy(&body, request.data() + sizeof(fuse_in_header), sizeof(T));
  }
  return body;
}

}  // namespace

Result<std::unique_ptr<SlowDisk>> SlowDisk::Make(std::string folder, std::vector<std::byte> content) {
  UniqueFd fuse(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fuse.valid()) {
    return ErrnoError("opening /dev/fuse");
  }
  const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", fuse.get());
  if (mount("slowdisk", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return ErrnoError("mounting FUSE");
  }
  return std::unique_ptr<SlowDisk>(new SlowDisk(std::move(folder), std::move(content), std::move(fuse)));
}

SlowDisk::SlowDisk(std::string folder, std::vector<std::byte> content, UniqueFd fuse)
    : folder_(std::move(folder)), content_(std::move(content)), fuse_(std::move(fuse)) {
  server_ = std::thread([this] { Serve(); });
}

SlowDisk::~SlowDisk() {
  Answer();
  umount2(folder_.c_str(), MNT_DETACH);
  server_.join();
}

void SlowDisk::Hold() {
  const std::lock_guard lock(mutex_);
  holding_ = true;
}

void SlowDisk::Answer() {
  const std::lock_guard lock(mutex_);
  holding_ = false;
  for (const Read& read : held_) {
    ReplyRead(read);
  }
  held_.clear();
}

void SlowDisk::Serve() {
  std::vector<std::byte> buffer(1 << 20);
  while (true) {
    const ssize_t n = read(fuse_.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) {
      continue;
    }
    if (n < static_cast<ssize_t>(sizeof(fuse_in_header))) {
      return;  // unmounted
    }
    Handle({buffer.begin(), buffer.begin() + n});
  }
}

void SlowDisk::Handle(const std::vector<std::byte>& request) {
  fuse_in_header header{};
  std::memcpy(&header, request.data(), sizeof(header));
  fuse_attr attr{};
  attr.ino = header.nodeid;
  attr.mode = header.nodeid == kRoot ? S_IFDIR | 0700 : S_IFREG | 0600;
  attr.nlink = 1;
  attr.size = header.nodeid == kRoot ? 0 : content_.size();
  switch (header.opcode) {
    case FUSE_INIT: {
      fuse_init_out out{};
      out.major = FUSE_KERNEL_VERSION;
      out.minor = FUSE_KERNEL_MINOR_VERSION;
      out.max_readahead = 65536;
      out.flags = FUSE_ASYNC_READ | FUSE_ASYNC_DIO;
      out.max_background = 16;
      out.max_write = 65536;
      return Reply(header.unique, 0, &out, sizeof(out));
    }
    case FUSE_LOOKUP: {
      fuse_entry_out out{};
      out.nodeid = kDisk;
      out.entry_valid = out.attr_valid = kForever;
      out.attr = attr;
      out.attr.ino = kDisk;
      out.attr.mode = S_IFREG | 0600;
      out.attr.size = content_.size();
      return Reply(header.unique, 0, &out, sizeof(out));
    }
    case FUSE_GETATTR: {
      fuse_attr_out out{};
      out.attr_valid = kForever;
      out.attr = attr;
      return Reply(header.unique, 0, &out, sizeof(out));
    }
    case FUSE_OPEN: {
      const fuse_open_out out{};
      return Reply(header.unique, 0, &out, sizeof(out));
    }
    case FUSE_READ: {
      const auto body = Body<fuse_read_in>(request);
      ++reads_;
      const std::lock_guard lock(mutex_);
      if (holding_) {
        held_.push_back({header.unique, body.offset, body.size});
      } else {
        ReplyRead({header.unique, body.offset, body.size});
      }
      return;
    }
    case FUSE_RELEASE:
      return Reply(header.unique, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;
    default:
      return Reply(header.unique, ENOSYS);
  }
}

void SlowDisk::Reply(uint64_t unique, int error, const void* body, size_t size) {
  fuse_out_header header{static_cast<uint32_t>(sizeof(fuse_out_header) + size), -error, unique};
  std::array<iovec, 2> parts = {{{&header, sizeof(header)}, {const_cast<void*>(body), size}}};
  // Fails if the request was abandoned meanwhile.
  (void)!writev(fuse_.get(), parts.data(), size == 0 ? 1 : 2);
}

void SlowDisk::ReplyRead(const Read& read) {
  if (failing_) {
    return Reply(read.unique, EIO);
  }
  const size_t from = std::min<size_t>(read.offset, content_.size());
  const size_t size = std::min<size_t>(read.size, content_.size() - from);
  Reply(read.unique, 0, content_.data() + from, size);
}

}  // namespace quarry::lvm
