#include "tests/contract/kernel_mount_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <system_error>

namespace quarry::contract {
namespace {

void Must(bool done, const std::string& what) {
  if (!done) {
    throw std::system_error(errno, std::generic_category(), what);
  }
}

void EnterOwnNamespace() {
  static const bool once = [] {
    Must(unshare(CLONE_NEWNS) == 0, "unshare");
    Must(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "making mounts private");
    return true;
  }();
  (void)once;
}

}  // namespace

KernelMountWorld::KernelMountWorld() {
  EnterOwnNamespace();
  std::string pattern = "/var/tmp/quarry-contract-XXXXXX";
  Must(mkdtemp(pattern.data()) != nullptr, "mkdtemp");
  base_ = pattern;
  Must(::mount("none", base_.c_str(), "tmpfs", 0, "mode=0755") == 0, "mounting tmpfs");
}

KernelMountWorld::~KernelMountWorld() {
  // Unmounts what a failed test left mounted below.
  umount2(base_.c_str(), MNT_DETACH);
  rmdir(base_.c_str());
}

std::string KernelMountWorld::NewDevice(Bytes size) {
  return loops_.emplace_back(size).node();
}

LoopDevice& KernelMountWorld::Loop(const std::string& node) {
  for (LoopDevice& loop : loops_) {
    if (loop.node() == node) {
      return loop;
    }
  }
  throw std::runtime_error("not a device of this world: " + node);
}

void KernelMountWorld::GrowDevice(const std::string& node, Bytes size) {
  Loop(node).Grow(size);
}

UniqueFd KernelMountWorld::OpenDevice(const std::string& node) {
  UniqueFd fd(open(node.c_str(), O_RDONLY | O_CLOEXEC));
  Must(fd.valid(), node);
  return fd;
}

mount::DeviceNumber KernelMountWorld::NumberOf(const std::string& node) {
  struct stat st{};
  Must(stat(node.c_str(), &st) == 0, node);
  return {major(st.st_rdev), minor(st.st_rdev)};
}

void KernelMountWorld::PutSwap(const std::string& node) {
  RunTool({"mkswap", node});
}

void KernelMountWorld::Damage(const std::string& node, bool fixable) {
  // A wrong count, or a missing root directory; and not "clean", so that a check looks at all.
  RunTool({"debugfs", "-w", "-R", fixable ? "set_super_value free_blocks_count 7" : "clri <2>", node});
  RunTool({"debugfs", "-w", "-R", "set_super_value state 0", node});
}

std::string KernelMountWorld::CopyOf(const std::string& node, const std::string& fs_type, bool unclean) {
  struct stat st{};
  const UniqueFd device = OpenDevice(node);
  const off_t size = lseek(device.get(), 0, SEEK_END);
  Must(size > 0 && fstat(device.get(), &st) == 0, node);
  std::string copy = NewDevice(Bytes{static_cast<uint64_t>(size)});
  const std::string target = NewDirectory().str();
  if (unclean) {
    Must(::mount(node.c_str(), target.c_str(), fs_type.c_str(), 0, nullptr) == 0, "mounting " + node);
    sync();
    for (int i = 0; i < 8; ++i) {
      const std::string path = target + "/synced" + std::to_string(i);
      const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
      Must(file.valid() && write(file.get(), "x", 1) == 1 && fsync(file.get()) == 0, path);
    }
  }
  // Past the page cache, which has what is not on the device yet. The new device reads as zeroes.
  RunTool({"dd", "if=" + node, "of=" + copy, "bs=1M", "iflag=direct", "conv=sparse,fsync", "status=none"});
  if (unclean) {
    Must(umount2(target.c_str(), 0) == 0, "unmounting " + target);
  }
  return copy;
}

AbsolutePath KernelMountWorld::NewDirectory() {
  const std::string path = fmt::format("{}/{}", base_, ++count_);
  Must(mkdir(path.c_str(), 0755) == 0, path);
  return *AbsolutePath::Parse(path);
}

void KernelMountWorld::PutFile(const std::string& path, bool empty) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  Must(file.valid() && (empty || write(file.get(), "x", 1) == 1), path);
}

void KernelMountWorld::PutSymlink(const std::string& path, const std::string& to) {
  Must(symlink(to.c_str(), path.c_str()) == 0, path);
}

MountWorld::Access KernelMountWorld::AccessOf(const std::string& path) {
  struct stat st{};
  Must(lstat(path.c_str(), &st) == 0, path);
  return {st.st_gid, st.st_mode & 07777};
}

void KernelMountWorld::SetAccess(const std::string& path, Access access) {
  Must(chown(path.c_str(), static_cast<uid_t>(-1), access.gid) == 0, path);
  Must(chmod(path.c_str(), access.mode) == 0, path);
}

std::shared_ptr<void> KernelMountWorld::Hold(const std::string& path) {
  return std::make_shared<SleepingChild>([&] { return chdir(path.c_str()) == 0; });
}

void SleepingChild::Begin() {
  std::array<int, 2> ends{};
  Must(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  read_.Reset(ends[0]);
  write_.Reset(ends[1]);
  pid_ = fork();
  Must(pid_ >= 0, "fork");
}

void SleepingChild::Sleep(bool entered) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char word = entered ? 'y' : 'n';
  if (write(write_.get(), &word, 1) == 1 && entered) {
    for (;;) {
      pause();
    }
  }
  _exit(1);
}

void SleepingChild::AwaitSleep() {
  char word = 'n';
  const ssize_t n = read(read_.get(), &word, 1);
  Must(n == 1 && word == 'y', "the child");
}

SleepingChild::~SleepingChild() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace quarry::contract
